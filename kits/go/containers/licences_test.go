package containers_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// permissive matches the texts of the licences that deny.toml allows. BSD-2-Clause and BSD-3-Clause begin
// alike, as do all versions of "Apache License".
var permissive = regexp.MustCompile(`Apache License\s+Version 2\.0` +
	`|Permission is hereby granted, free of charge` +
	`|Redistribution and use in source and binary forms` +
	`|Permission to use, copy, modify, and(/or)? distribute this software`)

// copyleft matches the texts of other licences.
var copyleft = regexp.MustCompile(`(?i)GNU (Lesser |Affero |Library )?General Public License|Mozilla Public License`)

func TestLicences(t *testing.T) {
	var complaints bytes.Buffer
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}", ".")
	list.Stderr = &complaints
	printed, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, complaints.String())
	}
	modules := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(printed)), "\n") {
		if path, directory, found := strings.Cut(line, " "); found {
			modules[path] = directory
		}
	}
	if modules["github.com/testcontainers/testcontainers-go"] == "" {
		t.Fatalf("testcontainers-go is not among the modules %v", modules)
	}
	for path, directory := range modules {
		if path == "eigentime" {
			continue
		}
		// Not LICENSE.docs, which covers go-digest's documentation.
		files, err := filepath.Glob(filepath.Join(directory, "LICEN[CS]E"))
		for _, ending := range []string{".md", ".txt"} {
			more, _ := filepath.Glob(filepath.Join(directory, "LICEN[CS]E"+ending))
			files = append(files, more...)
		}
		if err != nil || len(files) == 0 {
			t.Errorf("%s has no licence in %s", path, directory)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Error(err)
			}
			if !permissive.Match(text) || copyleft.Match(text) {
				t.Errorf("the licence of %s is not known to be permissive: %s", path, file)
			}
		}
	}
}
