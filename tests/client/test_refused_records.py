"""A batch with records that the topic refuses: these fail, each with its reason, and the others are stored."""

from __future__ import annotations

import pytest

import ottla


@pytest.mark.parametrize("settings", [{}, {"enable_idempotence": False}, {"compression_type": "lz4"}])
def test_records_without_a_key_fail_alone_in_a_compacted_topic(
    kafka_cluster: ottla.Cluster, kafka_name: str, settings: dict[str, object]
) -> None:
    kafka_cluster.create_topic(kafka_name, partitions=1, configs={"cleanup.policy": "compact"})
    with ottla.Producer(kafka_cluster.bootstrap_servers, linger_ms=60_000, **settings) as producer:  # type: ignore[arg-type]
        deliveries = [
            producer.send(kafka_name, b"%d" % number, None if number % 7 == 3 else b"key %d" % number, partition=0)
            for number in range(50)
        ]
        with pytest.raises(ottla.DeliveryError, match="7 records were not delivered"):
            producer.flush(30)
        for number, delivery in enumerate(deliveries):
            if number % 7 == 3:
                with pytest.raises(ottla.DeliveryFailed, match=f"record {number} of 50 .* a record without a key"):
                    delivery.result(0)
            else:
                delivery.result(0)
    kept = ottla.read_table(kafka_cluster.bootstrap_servers, kafka_name)
    assert kept["value"].to_pylist() == [b"%d" % number for number in range(50) if number % 7 != 3]
