"""The package as shipped: its types, its documentation, its wheel."""

import inspect
import subprocess
import sys
import tempfile
import unittest
import venv
from importlib.util import find_spec
from pathlib import Path

import eigentime

REPOSITORY = Path(__file__).resolve().parents[3]
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
WHEELS = REPOSITORY / "build" / "python"


def run(*command: object) -> subprocess.CompletedProcess:
    """Runs a command, and fails with its complete output."""
    words = [str(word) for word in command]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{words} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


class Types(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.cache = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.cache.cleanup)

    def mypy(self, module: str, *arguments: object) -> None:
        if find_spec("mypy") is None:
            self.skipTest("skipped: needs mypy, which `make python` installs")
        run(sys.executable, "-m", module, *arguments)

    def test_the_stubs_are_those_of_what_runs(self) -> None:
        self.mypy("mypy.stubtest", "eigentime")

    def test_examples_are_typed_strictly(self) -> None:
        cache = f"--cache-dir={self.cache.name}"
        self.mypy("mypy", "--strict", cache, *sorted(EXAMPLES.glob("*.py")))

    def test_the_modules_are_typed_strictly(self) -> None:
        cache = f"--cache-dir={self.cache.name}"
        self.mypy("mypy", "--strict", cache, "--package", "eigentime")


class Documentation(unittest.TestCase):
    def public(self) -> dict:
        """Everything that users can reach, by name."""
        found = {}
        for name in eigentime.__all__:
            thing = getattr(eigentime, name)
            found[name] = thing
            if inspect.isclass(thing):
                own = {k: v for k, v in vars(thing).items() if not k.startswith("_")}
                found.update({f"{name}.{key}": value for key, value in own.items()})
        return found

    def test_everything_public_is_documented(self) -> None:
        bare = [name for name, thing in self.public().items() if not inspect.getdoc(thing)]
        self.assertEqual(bare, [])

    def test_everything_is_said_to_be_public(self) -> None:
        names = {
            name
            for name, thing in vars(eigentime).items()
            # Other tests import modules of it.
            if not name.startswith("_") and not inspect.ismodule(thing)
        }
        self.assertEqual(names, set(eigentime.__all__))
        self.assertEqual(sorted(eigentime.__all__), eigentime.__all__)


class Wheel(unittest.TestCase):
    def wheel(self) -> Path:
        wheels = sorted(WHEELS.glob("eigentime-*.whl"))
        if not wheels:
            self.skipTest("skipped: needs the wheel, which `make python` builds")
        self.assertEqual(len(wheels), 1)
        return wheels[0]

    def test_one_wheel_is_for_all_versions(self) -> None:
        _name, _version, python, abi, _platform = self.wheel().stem.split("-")
        self.assertEqual((python, abi), ("cp39", "abi3"))

    def test_it_installs_where_nothing_is(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            venv.create(folder, with_pip=True)
            python = Path(folder, "bin", "python")
            run(python, "-m", "pip", "install", "--quiet", "--no-index", self.wheel())
            # -I: nothing of this folder or of the caller's environment is importable.
            program = "import eigentime; print(eigentime.__file__, eigentime.now_ns() > 0)"
            said = run(python, "-I", "-c", program).stdout.split()
            self.assertTrue(said[0].startswith(str(Path(folder).resolve())))
            self.assertEqual(said[1], "True")
            files = run(python, "-m", "pip", "show", "--files", "eigentime").stdout
            for file in ["py.typed", "_eigentime.pyi", "_eigentime.abi3.so"]:
                self.assertIn(f"eigentime/{file}", files)


if __name__ == "__main__":
    unittest.main()
