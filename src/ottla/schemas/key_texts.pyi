from ottla.records.arrow_data import Chunk
from ottla.records.key_column import KeyColumn

def key_texts(chunk: Chunk, name: str, first_row: int = 0) -> KeyColumn: ...
