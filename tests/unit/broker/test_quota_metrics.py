"""Metrics of client quotas and of limited connections."""

from bowstring.engine.broker.metrics import exposition, registry
from bowstring.protocol.messages import alter_client_quotas as acq
from bowstring.protocol.messages.metadata import MetadataRequest

ROW = '{client_id="",quota="request_percentage",user="ANONYMOUS"}'


def scraped(served):
    return exposition(registry(served.engine), "", "")[0].decode()


def test_without_quotas_and_limits_there_are_no_rows(served):
    found = scraped(served)
    assert "bowstring_connections " in found
    assert "client_quota" not in found
    assert "bowstring_refused_connections" not in found


def test_entities_in_use_have_rows(serve):
    served = serve(max_connections_per_ip="100")
    entry = acq.AlterClientQuotasRequestEntryData(
        entity=[acq.EntityData(entity_type="user", entity_name="ANONYMOUS")],
        ops=[acq.OpData(key="request_percentage", value=1e-9)],
    )
    assert served.ask(acq.AlterClientQuotasRequest(entries=[entry])).entries[0].error_code == 0
    assert served.ask(MetadataRequest(topics=[])).throttle_time_ms == 1000
    found = scraped(served)
    assert f"bowstring_client_quota_limit{ROW} 1e-09" in found
    assert f"bowstring_client_quota_throttles_total{ROW} 1.0" in found
    assert f"bowstring_client_quota_throttled_seconds_total{ROW} 1.0" in found
    assert f"bowstring_client_quota_rate{ROW} " in found
    assert 'bowstring_refused_connections_total{reason="too-many"} 0.0' in found
