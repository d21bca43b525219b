"""What pip asks for before it keeps a source distribution: metadata, here without building anything.

The package's own build backend would be installed with all that it needs, and run.

SPDX-License-Identifier: Apache-2.0
"""

import os


def get_requires_for_build_wheel(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(directory, config_settings=None):
    with open("PKG-INFO", encoding="utf-8") as file:
        metadata = file.read()
    version = metadata.split("\nVersion: ", 1)[1].split("\n", 1)[0]
    name = f"llama_cpp_python-{version}.dist-info"
    os.makedirs(os.path.join(directory, name))
    with open(os.path.join(directory, name, "METADATA"), "w", encoding="utf-8") as file:
        file.write(metadata)
    return name
