"""Every error of a public package is a name of `bowstring`, and a ClientError."""

import importlib
import inspect

import pytest

import bowstring

MODULES = ("clients.errors", "values.errors", "broker", "kernels.function", "cluster.process")


@pytest.mark.parametrize("name", MODULES)
def test_errors_are_exported(name):
    module = importlib.import_module(f"bowstring.{name}")
    for error in vars(module).values():
        if inspect.isclass(error) and issubclass(error, Exception) and error.__module__ == module.__name__:
            assert getattr(bowstring, error.__name__) is error
            assert issubclass(error, bowstring.ClientError), error
            assert error.__name__ in bowstring.__all__
