"""Each rule of check_layers.py fires on a tree that breaks it, and stays quiet on one that does not."""

import pytest

from conftest import Check

HEADER = "#pragma once\n"
GOOD = {
    "include/tensor_tracer/base/check.h": HEADER,
    "include/tensor_tracer/mesh/mesh.h": '#pragma once\n#include "tensor_tracer/base/check.h"\n',
    "src/mesh/mesh.cpp": '#include "tensor_tracer/mesh/mesh.h"\n#include "src/mesh/rank.h"\n',
    "src/mesh/rank.h": HEADER,
    "src/mesh/CMakeLists.txt": "tt_library(mesh SOURCES mesh.cpp DEPENDS tt_base)  # not tt_hub\n",
    "src/comm/x.cpp": "#include <ATen/core/Tensor.h>\n#include <mpi.h>\n",
    "src/hub/y.cpp": "// #include <ATen/ATen.h>\n#include <boost/beast.hpp>\n",
    "src/cli/CMakeLists.txt":
        "target_link_libraries(tensor-tracer-hub PRIVATE tt_hub tt_options)\n"
        "target_link_libraries(tensor-tracer PRIVATE tt_train tt_link tt_torch)\n",
    "frontend/src/base/a.ts": "export const a = 1;\n",
    "frontend/src/core/store/s.ts": "import { a } from '../../base/a';\n",
    "frontend/src/worker.ts": "import { s } from './features/worker';\n",
    "frontend/src/features/worker.ts": "import { s } from './maps/worker';\n",
    "frontend/src/features/maps/view.svelte": "import { s } from '../../core/store/s';\n",
    "frontend/src/main.ts": "import './shell/App.svelte';\nimport { mount } from 'svelte';\n",
}

BAD = {
    "a lower layer includes a higher one":
        ("src/mesh/m.cpp", '#include "tensor_tracer/hub/server.h"\n', "mesh must not include hub"),
    "train includes the rank-side client":
        ("src/train/t.cpp", '#include "tensor_tracer/link/client.h"\n',
         "train must not include link"),
    "train includes Boost":
        ("src/train/t.cpp", "#include <boost/crc.hpp>\n", "only hub and protocol"),
    "the model opens a socket":
        ("src/model/m.cpp", "#include <boost/asio/io_context.hpp>\n", "only hub and link"),
    "the hub includes libtorch":
        ("src/hub/h.cpp", "#include <ATen/core/Tensor.h>\n", "hub must not include <ATen/core"),
    "a public header of protocol includes libtorch":
        ("include/tensor_tracer/protocol/p.h", "#include <c10/util/BFloat16.h>\n",
         "this module knows no libtorch"),
    "the slow header":
        ("src/nn/n.cpp", "#include <torch/torch.h>\n", "13-30 s"),
    "MPI outside comm":
        ("src/trace/t.cpp", "#include <mpi.h>\n", "only comm knows MPI"),
    "include/ reaches into src/":
        ("include/tensor_tracer/nn/n.h", '#include "src/nn/impl.h"\n',
         "include/ includes only include/"),
    "another module's private header":
        ("src/mesh/m.cpp", '#include "src/comm/impl.h"\n', "private to comm"),
    "a header that does not exist":
        ("src/mesh/m.cpp", '#include "tensor_tracer/base/no.h"\n', "there is no include/"),
    "an unknown module":
        ("src/misc/m.cpp", "", "module misc is not in the table"),
    "a link upwards":
        ("src/base/CMakeLists.txt", "tt_library(base SOURCES a.cpp DEPENDS tt_mesh)\n",
         "base must not link mesh"),
    "the hub's library links libtorch":
        ("src/hub/CMakeLists.txt", "tt_library(hub TORCH\n  SOURCES a.cpp)\n",
         "hub must not link libtorch"),
    "the hub's program links the model":
        ("src/cli/CMakeLists.txt",
         "target_link_libraries(tensor-tracer-hub PRIVATE\n  tt_hub tt_model)\n",
         "tensor-tracer-hub must not link tt_model"),
    "an unknown library":
        ("src/nn/CMakeLists.txt", "tt_library(nn DEPENDS tt_stuff)\n", "belongs to no module"),
    "the page's base imports its store":
        ("frontend/src/base/b.ts", "import type { S } from '../core/store/s';\n",
         "base must not import core/store"),
    "core imports a feature":
        ("frontend/src/core/store/v.ts", "import { m } from '../../features/maps/m';\n",
         "core/store must not import features/*"),
    "a feature imports another":
        ("frontend/src/features/text/t.svelte", "import View from '../maps/view.svelte';\n",
         "the feature text must not import maps"),
    "a feature imports the shell":
        ("frontend/src/features/text/t.ts", "import { c } from '../../shell/commands';\n",
         "features/* must not import shell"),
    "a worker that loads the page's session":
        ("frontend/src/core/worker/w.ts",
         "const u = new URL('../session/page.ts', import.meta.url);\n",
         "core/worker must not import core/session"),
    "a framework below the session":
        ("frontend/src/core/store/f.ts", "import { writable } from 'svelte/store';\n",
         "core/store must not import the package svelte"),
    "an import from outside the page":
        ("frontend/src/base/b.ts", "import x from '../../../docs/x.json';\n", "lies outside"),
    "an unknown folder of the page":
        ("frontend/src/misc/x.ts", "", "folder misc is not in the page's table"),
    "code of the page in the worker's bundle":
        ("frontend/src/features/maps/worker.ts", "import View from './view.svelte';\n",
         "view.svelte must not come into the bundle of worker.ts"),
    "the worker's code in the page's bundle":
        ("frontend/src/main.ts", "import { kWorkerFeatures } from './features/worker';\n",
         "features/worker.ts must not come into the bundle of main.ts"),
}


def test_a_good_tree_passes(check: Check) -> None:
    result = check("check_layers.py", GOOD)
    assert result.returncode == 0, result.stdout
    assert "layers: 14 files, 0 findings" in result.stdout


@pytest.mark.parametrize("name", BAD)
def test_fires(check: Check, name: str) -> None:
    path, content, message = BAD[name]
    result = check("check_layers.py", GOOD | {path: content})
    assert result.returncode == 1
    assert f"{path}:" in result.stdout and message in result.stdout, result.stdout


def test_files_of_the_page_that_import_each_other(check: Check) -> None:
    """Also through a third one, and as types only."""
    circle = {"frontend/src/base/b.ts": "import type { C } from './c';\n",
              "frontend/src/base/c.ts": "export { d } from './d';\n",
              "frontend/src/base/d.ts": "import { b } from './b';\n"}
    result = check("check_layers.py", GOOD | circle)
    assert "a circle of imports: base/b.ts <-> base/c.ts <-> base/d.ts" in result.stdout
    assert check("check_layers.py", {"frontend/src/base/d.ts": ""}).returncode == 0


def test_types_and_chunks_belong_to_no_bundle(check: Check) -> None:
    page = {"frontend/src/features/maps/worker.ts":
            "import type { F } from './view.svelte';\nconst v = () => import('./view.svelte');\n"}
    assert check("check_layers.py", GOOD | page).returncode == 0


def test_an_empty_tree_is_a_failure(check: Check) -> None:
    result = check("check_layers.py", {})
    assert result.returncode == 1 and "no file to check" in result.stdout


def test_the_tables_themselves_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    import check_layers

    assert check_layers.check_tables() == []
    monkeypatch.setitem(check_layers.ALLOWED, "hub", {"base", "comm"})
    monkeypatch.setitem(check_layers.ALLOWED, "base", {"protocol"})
    monkeypatch.setitem(check_layers.ALLOWED, "protocol", {"mesh"})
    messages = [finding.message for finding in check_layers.check_tables()]
    assert "hub knows no libtorch, so it cannot use comm" in messages
    assert "the row of base is circular or names an unknown module" in messages


def test_a_row_allows_only_what_is_used(check: Check) -> None:
    result = check("check_layers.py", GOOD | {"scripts/check_layers.py": ""})
    assert result.returncode == 1
    assert "module mesh does not use base" not in result.stdout, result.stdout
    assert "module hub does not use record: remove it from its row" in result.stdout
    assert "folder core/store does not use base" not in result.stdout
    assert "folder ui does not use base: remove it from its row" in result.stdout


def test_debt_is_allowed_and_must_go_when_paid(
        tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    import check_layers

    monkeypatch.setitem(check_layers.DEBT, ("src/mesh/m.cpp", "hub"), "a reason")
    (tmp_path / "src/mesh").mkdir(parents=True)
    (tmp_path / "include/tensor_tracer/hub").mkdir(parents=True)
    (tmp_path / "include/tensor_tracer/hub/server.h").write_text(HEADER)
    source = tmp_path / "src/mesh/m.cpp"
    source.write_text('#include "tensor_tracer/hub/server.h"\n')
    owing = check_layers.Checker(tmp_path)
    owing.run()
    assert owing.findings == []
    source.write_text("")
    paid = check_layers.Checker(tmp_path)
    paid.run()
    assert [finding.message for finding in paid.findings] == [
        "the debt entry for hub is paid: remove it"]
