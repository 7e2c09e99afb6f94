"""Flame graphs: what perf prints becomes stacks with people's names, costs and pictures."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections import Counter

import pytest

from bench.flame import costs, picture
from bench.flame.stacks import Frame, cython_name, samples

PRINTED = """\
reactor-0 11/12
\tffffffff81234567 tcp_recvmsg ([kernel.kallsyms])
\tffffffff81234000 __x64_sys_recvfrom ([kernel.kallsyms])
\tffffffff81100000 do_syscall_64 ([kernel.kallsyms])
\tffffffff81000000 entry_SYSCALL_64_after_hwframe ([kernel.kallsyms])
\t    7f0000001000 __libc_recv (/usr/lib/libc.so.6)
\t    7f0000002000 __pyx_f_9bowstring_7_native_7reactor_run (/x/bowstring/_native/server.cpython-311.so)
\t    7f0000003000 start_thread (/usr/lib/libc.so.6)

python 13/14
\t    7f0000004000 _PyEval_EvalFrameDefault (/usr/lib/libpython3.11.so.1.0)
\t    7f0000004100 _PyFunction_Vectorcall (/usr/lib/libpython3.11.so.1.0)
\t    7f0000004200 [unknown] (/usr/lib/libc.so.6)

"""


def test_samples_are_stacks_from_the_outermost_call_on():
    (pid, stack), (other, merged) = samples(iter(PRINTED.splitlines(keepends=True)))
    assert pid == 11
    assert stack[:3] == (
        Frame("reactor-0", "thread"),
        Frame("start_thread", "library"),
        Frame("reactor.run", "native"),
    )
    assert stack[-1] == Frame("tcp_recvmsg", "kernel")
    assert other == 13
    assert merged == (Frame("python", "thread"), Frame("libc", "library"), Frame("Python", "python"))


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("__pyx_f_9bowstring_7_native_7produce_enqueue", "produce.enqueue"),
        ("__pyx_f_9bowstring_7_native_7produce_settle.part.0", "produce.settle"),
        ("__pyx_pw_9bowstring_7_native_9gil_turns_3sendmsg", "gil_turns.sendmsg"),
        (
            "__pyx_pw_9bowstring_7_native_13produce_batch_5Batch_9seal",
            "produce_batch.Batch.seal",
        ),
        ("crc32c_avx512", "produce.crc32c_avx512"),
    ],
)
def test_native_functions_have_the_names_of_their_sources(symbol, name):
    assert cython_name(symbol, "produce") == name


def test_a_cost_is_who_asked_and_what_the_kernel_did():
    (_, stack), (_, python) = samples(iter(PRINTED.splitlines(keepends=True)))
    assert costs.cost_of(stack) == "reactor.run → recvfrom (kernel)"
    assert costs.cost_of(python) == "Python"
    assert costs.largest(Counter({stack: 3, python: 1})) == [
        ("reactor.run → recvfrom (kernel)", 0.75),
        ("Python", 0.25),
    ]


def test_a_picture_has_a_box_for_each_call_of_some_width():
    (_, stack), (_, python) = samples(iter(PRINTED.splitlines(keepends=True)))
    drawn = picture.draw(Counter({stack: 999, python: 1}), "load <1>", "broker")
    titles = [
        element.text or "" for element in ElementTree.fromstring(drawn).iter() if "title" in element.tag
    ]
    assert "reactor.run: 99.9 %" in titles
    assert not any(title.startswith("Python") for title in titles)  # less than can be seen
