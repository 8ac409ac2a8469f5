"""The OCI image: read by others, and run by Eigentime itself."""

import json
import unittest

from roots import PACKAGES, InRoots, need, package, run

NAME = "eigentime-[0-9]*-oci.tar"
FOR_CLUSTERS = "eigentime-cluster-*-oci.tar"


class Image(InRoots):
    """The archive, without a registry or a daemon."""

    def test_others_read_it(self) -> None:
        need("skopeo")
        file = package(NAME)
        said = json.loads(run("skopeo", "inspect", "--config", f"oci-archive:{file}"))
        self.assertEqual(["/usr/bin/eigentime"], said["config"]["Entrypoint"])
        run(
            "skopeo",
            "copy",
            "--insecure-policy",
            f"docker-archive:{file}",
            f"dir:{self.folder}/copy",
        )

    def test_in_a_container(self) -> None:
        need("runc")
        file = package(NAME)
        command = PACKAGES / "tree/bin/eigentime"
        said = run(
            command, "run", "--image", file, "--date", "2038-01-19", "--", "--version"
        )
        self.assertEqual(run(command, "--version"), said)

    def test_for_clusters(self) -> None:
        need("runc")
        file = package(FOR_CLUSTERS)
        command = PACKAGES / "tree/bin/eigentime"
        said = run(command, "run", "--image", file, "--", "--version")
        self.assertIn(run(command, "--version").split()[1], said)

    def test_podman_loads_it(self) -> None:
        need("podman")
        file = package(NAME)
        podman = [
            "podman",
            "--root",
            self.folder / "root",
            "--runroot",
            self.folder / "run",
        ]
        podman += ["--storage-driver", "vfs", "--cgroup-manager", "cgroupfs"]
        self.assertIn("localhost/eigentime:", run(*podman, "load", "--input", file))
        run(*podman, "image", "rm", "--all")


if __name__ == "__main__":
    unittest.main()
