package containers_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"eigentime"
	"eigentime/containers"

	"github.com/moby/moby/api/types/container"
	"github.com/testcontainers/testcontainers-go"
)

// apiVersion is the API version of the engine that the tests find.
var apiVersion string

func TestMain(m *testing.M) {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Api-Version", apiVersion)
		fmt.Fprintf(w, `{"ApiVersion": %q}`, apiVersion)
	}))
	// testcontainers looks for the engine only once.
	os.Setenv("DOCKER_HOST", strings.Replace(engine.URL, "http:", "tcp:", 1))
	status := m.Run()
	engine.Close()
	os.Exit(status)
}

// asked returns the request for a container with these options.
func asked(t *testing.T, options ...testcontainers.ContainerCustomizer) testcontainers.GenericContainerRequest {
	t.Helper()
	var request testcontainers.GenericContainerRequest
	for _, option := range options {
		if err := option.Customize(&request); err != nil {
			t.Fatal(err)
		}
	}
	return request
}

// host returns the host configuration of a request.
func host(request testcontainers.GenericContainerRequest) container.HostConfig {
	var config container.HostConfig
	request.HostConfigModifier(&config)
	return config
}

func TestTheEngineIsTold(t *testing.T) {
	t.Setenv("EIGENTIME_RUNTIME_DIR", t.TempDir())
	tl := eigentime.New(t, eigentime.Joinable())
	apiVersion = "1.43"
	request := asked(t, containers.On(tl.Timeline))
	config := host(request)
	if config.Runtime != "eigentime" {
		t.Errorf("the runtime is %q", config.Runtime)
	}
	if name := config.Annotations["io.eigentime.timeline"]; name != tl.Name() {
		t.Errorf("the annotations are %v", config.Annotations)
	}
	if len(request.Env) != 0 {
		t.Errorf("the environment is %v", request.Env)
	}
}

func TestAnEngineThatPassesNoAnnotations(t *testing.T) {
	t.Setenv("EIGENTIME_RUNTIME_DIR", t.TempDir())
	tl := eigentime.New(t, eigentime.Joinable())
	apiVersion = "1.42"
	request := asked(t, containers.On(tl.Timeline))
	if runtime := host(request).Runtime; runtime != "eigentime" {
		t.Errorf("the runtime is %q", runtime)
	}
	if name := request.Env["EIGENTIME_TIMELINE"]; name != tl.Name() {
		t.Errorf("the environment is %v", request.Env)
	}
}

func TestOtherOptionsStay(t *testing.T) {
	t.Setenv("EIGENTIME_RUNTIME_DIR", t.TempDir())
	tl := eigentime.New(t, eigentime.Joinable())
	apiVersion = "1.43"
	config := host(asked(t,
		testcontainers.WithHostConfigModifier(func(host *container.HostConfig) {
			host.Annotations = map[string]string{"before": "yes"}
		}),
		containers.On(tl.Timeline),
		testcontainers.WithHostConfigModifier(func(host *container.HostConfig) { host.Annotations["after"] = "yes" }),
	))
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
