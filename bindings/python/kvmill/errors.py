"""The exception for what the library refuses, and the warning about portable kernels.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from . import c


class KvmillError(RuntimeError):
    """The library refused a plan or a run.  Nothing has been written.

    status: number of the kvmill_status; status_name: its name, "KVMILL_E_SHAPE" etc.;
    message: which argument, its value, and what is accepted.
    """

    def __init__(self, status: int, status_name: str, message: str) -> None:
        super().__init__(f"{status_name}: {message}")
        self.status = status
        self.status_name = status_name
        self.message = message


class PortableKernelWarning(UserWarning):
    """A plan or a run uses portable kernels, which are slow, because no pack has others.

    The text says which kernels are missing."""


# The option's name in the library's messages, which check() replaces by the Python argument.
_OF_C = "; options.least_isa is scalar"
OF_PORTABLE = '; portable is "refuse"; accepted: "warn", "allow", "only"'


def check(status: int, error: c.Error) -> None:
    if status != 0:
        name = c.library.kvmill_status_name(status).decode()
        message = error.message.decode(errors="replace")
        raise KvmillError(status, name, message.replace(_OF_C, OF_PORTABLE))
