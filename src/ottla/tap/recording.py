"""A file, or a pipe, with what passed: ours, pcap or pcapng, told apart by its first bytes.

It may be read while it grows: `entries` gives what is complete by now, and may be asked again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from ottla.errors import UserMistake
from ottla.tap.byte_source import ByteSource
from ottla.tap.capture import BEGINNING, CaptureReader
from ottla.tap.connections import Connections
from ottla.tap.exchange import Entry
from ottla.tap.pcap import PCAP_MAGICS, PCAPNG_MAGIC, PcapngReader, PcapReader

_MAGIC_BYTES = 4
# How compressed files begin, and what unpacks them.
_COMPRESSED = {
    b"\x1f\x8b": ("gzip", "gzip -dc"),
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -dc"),
    b"\xfd7zX": ("xz", "xz -dc"),
    b"BZh": ("bzip2", "bzip2 -dc"),
    b"\x04\x22\x4d\x18": ("lz4", "lz4 -dc"),
}
_KNOWN = "a capture of ottla's, a pcap or a pcapng (tcpdump -w, Wireshark)"


class Recording:
    """Entries out of a recording; `name` is its name in errors. `hashes` and `payloads` are as for `Conversation`.

    Raises UserMistake where it is no recording, or damaged, and says where.
    """

    def __init__(self, file: BinaryIO, name: str, *, hashes: bool = True, payloads: bool = False) -> None:
        self._source = ByteSource(file)
        self._name = name
        self._reader: CaptureReader | PcapReader | PcapngReader | None = None
        self._connections = Connections(hashes=hashes, payloads=payloads)

    @property
    def position(self) -> int:
        """How many bytes of the file were read."""
        return self._source.position + self._source.rest_bytes

    @property
    def is_ours(self) -> bool:
        """Whether it was written as exchanges rather than as packets."""
        return isinstance(self._reader, CaptureReader)

    def entries(self) -> Iterator[Entry]:
        """What is complete by now and was not given yet."""
        if self._reader is None:
            self._reader = self._recognised()
        if isinstance(self._reader, CaptureReader):
            yield from self._reader.entries()
        elif self._reader is not None:
            for packet in self._reader.packets():
                yield from self._connections.add(packet)

    def end(self) -> list[Entry]:
        """No more will come: what was begun and not completed. UserMistake where too little came to be a recording."""
        if self._reader is None:
            self._refuse(self._source.peek(self._source.rest_bytes) or b"")
        return self._connections.end()

    def notes(self) -> list[str]:
        """What a reader of the entries should know of the recording, once it has ended."""
        found = []
        for link_type, count in self._connections.strange_links.items():
            packets = "1 packet" if count == 1 else f"{count:,} packets"
            found.append(
                f"{packets} of link type {link_type} not read: Ethernet, Linux cooked, loopback and raw IP are"
            )
        if count := self._connections.short_packets:
            packets = f"{count:,} packet{'s were' if count != 1 else ' was'}"
            found.append(f"{packets} not captured whole: record with -s 0, so that requests can be decoded")
        return found

    def cut_off(self) -> str | None:
        """Where the file ends in the middle of something; None where it does not."""
        cut_off = self._reader.cut_off if self._reader is not None else None
        if cut_off is None:
            return None
        what = f"line {cut_off[0]}" if len(cut_off) == 3 else "the last packet"
        return (
            f"{self._name} is cut off: {what}, which begins at byte {cut_off.position:,}, is not whole "
            f"({cut_off.size_bytes:,} bytes of it are there)"
        )

    def _recognised(self) -> CaptureReader | PcapReader | PcapngReader | None:
        """The reader for what it is; None where too little of it is there."""
        magic = self._source.peek(_MAGIC_BYTES)
        if magic is None:
            return None
        if magic in PCAP_MAGICS:
            return PcapReader(self._source, self._name)
        if magic == PCAPNG_MAGIC:
            return PcapngReader(self._source, self._name)
        if magic == BEGINNING[:_MAGIC_BYTES]:
            beginning = self._source.peek(len(BEGINNING))
            if beginning is None:
                return None
            if beginning == BEGINNING:
                return CaptureReader(self._source, self._name)
        self._refuse(magic)
        return None

    def _refuse(self, beginning: bytes) -> None:
        if not beginning:
            raise UserMistake(f"{self._name} is empty: give {_KNOWN}")
        for magic, (kind, command) in _COMPRESSED.items():
            if beginning.startswith(magic):
                raise UserMistake(f"{self._name} is compressed with {kind}: unpack it first, as by {command}")
        if BEGINNING.startswith(beginning) or any(each.startswith(beginning) for each in (*PCAP_MAGICS, PCAPNG_MAGIC)):
            raise UserMistake(f"{self._name} is cut off at byte {len(beginning)}, before anything was recorded")
        raise UserMistake(f"{self._name} is no recording (it begins with {beginning[:4]!r}): give {_KNOWN}")
