"""The reference page shows what is declared."""

from bowstring.engine.protocol import API_VERSIONS
from bowstring.engine.protocol.reference import render


def test_the_page():
    page = render()
    assert "| 3 | Metadata | 0-13 | 9 | Names the brokers" in page
    assert "| 22 | InitProducerId | 0-5 (6 unstable) | 2 |" in page
    assert "| 47 | OffsetDelete | 0-0 | never |" in page
    assert "| topics | []MetadataRequestTopic | 0+ | 1+ |  |  |" in page
    assert "| · topic_id | uuid | 10+ |  |  |  |" in page
    assert "| include_cluster_authorized_operations | bool | 8-10 |  |  |  |" in page
    assert "| cluster_id | string | 2+ | 2+ | null |  |" in page
    assert "| finalized_features_epoch | int64 | 3+ |  | -1 | 1 |" in page
    for key in API_VERSIONS:
        assert f"\n## {API_VERSIONS[key].name} ({key})\n" in page
