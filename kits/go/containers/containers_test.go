package containers_test

import (
	"strings"
	"testing"

	"eigentime"
	"eigentime/containers"

	"github.com/moby/moby/api/types/container"
	"github.com/testcontainers/testcontainers-go"
)

// host is the configuration that the engine gets for a container with these options.
func host(t *testing.T, options ...testcontainers.ContainerCustomizer) container.HostConfig {
	t.Helper()
	var request testcontainers.GenericContainerRequest
	for _, option := range options {
		if err := option.Customize(&request); err != nil {
			t.Fatal(err)
		}
	}
	var config container.HostConfig
	request.HostConfigModifier(&config)
	return config
}

func TestTheEngineIsTold(t *testing.T) {
	t.Setenv("EIGENTIME_RUNTIME_DIR", t.TempDir())
	tl := eigentime.New(t, eigentime.Joinable())
	config := host(t, containers.On(tl.Timeline))
	if config.Runtime != "eigentime" {
		t.Errorf("the runtime is %q", config.Runtime)
	}
	if name := config.Annotations["io.eigentime.timeline"]; name != tl.Name() {
		t.Errorf("the annotations are %v", config.Annotations)
	}
}

func TestOtherOptionsStay(t *testing.T) {
	t.Setenv("EIGENTIME_RUNTIME_DIR", t.TempDir())
	tl := eigentime.New(t, eigentime.Joinable())
	config := host(t,
		testcontainers.WithHostConfigModifier(func(host *container.HostConfig) {
			host.Annotations = map[string]string{"before": "yes"}
		}),
		containers.On(tl.Timeline),
		testcontainers.WithHostConfigModifier(func(host *container.HostConfig) { host.Annotations["after"] = "yes" }),
	)
	for _, name := range []string{"before", "after", "io.eigentime.timeline"} {
		if config.Annotations[name] == "" {
			t.Errorf("%s is not among the annotations %v", name, config.Annotations)
		}
	}
}

func TestATimelineThatContainersMayNotJoin(t *testing.T) {
	tl := eigentime.New(t)
	err := containers.On(tl.Timeline).Customize(&testcontainers.GenericContainerRequest{})
	if err == nil || !strings.Contains(err.Error(), "eigentime.Joinable()") {
		t.Errorf("the error is %v", err)
	}
}
