"""Altered, in a whole run: a record that any reader got at any time is not what was sent, or was never sent.

Promise: key, value and headers come back byte for byte. Every record that was ever read is compared with every time it
was handed over, by the CRCs of its key, its value and (where somebody took them) its headers. A record without a
number, or with one that nobody used, is one nobody sent.

Not observable: headers other than the number, where their CRC was not taken on either side.
"""

from __future__ import annotations

from ottla.audit.chronicles.case import Case
from ottla.audit.chronicles.chronicle import RecordSeen, SentRecord
from ottla.audit.findings import ALTERED, EVIDENCE_MAX, Finding, Findings


def check_integrity(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Records read that differ from what was sent, and records nobody sent."""
    found = Findings(ALTERED, evidence_max)
    for place, shown in case.readings.shown():
        record, read = shown.record, shown.first
        sent = case.sent.get(record.number)
        if sent is None:
            what = f"record {record.number}" if record.number >= 0 else "a record without a number"
            detail = f"{what} stands at offset {record.offset}, and nobody sent it"
        elif any(_same(each, record) for each in sent):
            if record.headers_crc is None or any(each.headers_crc is None for each in sent):
                found.not_seen("the headers of records whose checksum nobody took")
            continue
        else:
            difference = _difference(sent[0], record)
            detail = f"record {record.number} stands altered at offset {record.offset}: {difference}"
        found.add(
            f"{detail} ({read.reader}, {read.ended_us} us)",
            place=place,
            number=record.number,
            offsets=(record.offset,),
            at_us=read.ended_us,
        )
    return found.finding()


def _same(sent: SentRecord, record: RecordSeen) -> bool:
    if sent.value_crc != record.value_crc or sent.key_crc != record.key_crc:
        return False
    return sent.headers_crc is None or record.headers_crc is None or sent.headers_crc == record.headers_crc


def _difference(sent: SentRecord, record: RecordSeen) -> str:
    if sent.key_crc != record.key_crc:
        return f"its key has CRC {record.key_crc:#x}, sent was {sent.key_crc:#x}"
    if sent.value_crc != record.value_crc:
        return f"its value has CRC {record.value_crc:#x}, sent was {sent.value_crc:#x}"
    return f"its headers have CRC {record.headers_crc or 0:#x}, sent was {sent.headers_crc or 0:#x}"
