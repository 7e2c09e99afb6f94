"""A log, each append of which goes to its file, against the model."""

from hypothesis import settings

from tests.support.examples import examples
from tests.support.log_machine import LogMachine

TestLogModel = LogMachine.TestCase
TestLogModel.settings = settings(max_examples=examples(60), stateful_step_count=40)
