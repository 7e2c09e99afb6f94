from bowstring.engine.requests.binding import bound, stated


def handle(request, *, logs, node_id):
    return request, logs, node_id


def plain(request):
    local = request
    return local


def test_the_keyword_only_parameters_are_stated():
    assert stated(handle) == ("logs", "node_id")
    assert stated(plain) == ()


def test_parts_are_asked_for_once_when_a_function_is_bound():
    asked = []
    call = bound(handle, lambda name: asked.append(name) or f"the {name}")
    assert call("first") == ("first", "the logs", "the node_id")
    assert call("second") == ("second", "the logs", "the node_id")
    assert asked == ["logs", "node_id"]


def test_no_part_is_asked_for_that_is_not_stated():
    assert bound(plain, {}.__getitem__)("request") == "request"
