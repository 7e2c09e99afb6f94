"""The data plane: Cython extensions that run without the GIL.

All modules of a package are in one shared object beside its folder: those of `log/` in `log.cpython-*.so`
(docs/decisions/0034-one-library-a-package.md). Each is initialized when it is first imported.
"""

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location


class _PackageLibraries:
    """Finds native modules, which have no file of their own, in the shared object of their package."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        """Returns where to find a module, or None if its package has no shared object.

        The loader looks up the function that initializes a module by the last part of its name, so it may be
        any of a shared object that has several.
        """
        if not fullname.startswith(f"{__name__}."):
            return None
        package, _, module = fullname.removeprefix(f"{__name__}.").partition(".")
        library = os.path.join(__path__[0], f"{package}{EXTENSION_SUFFIXES[0]}")
        if not module or not os.path.exists(library):
            return None
        return spec_from_file_location(fullname, library, loader=ExtensionFileLoader(fullname, library))


sys.meta_path.append(_PackageLibraries())
