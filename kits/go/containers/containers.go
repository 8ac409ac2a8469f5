// Package containers puts containers of testcontainers-go on a timeline of Eigentime.
//
//	tl := eigentime.New(t, eigentime.Date("2038-01-19"), eigentime.Joinable())
//	database, err := testcontainers.Run(ctx, "postgres:18", containers.On(tl.Timeline))
//
// The engine must know the runtime eigentime (`eigentime setup docker`) and run as the user of the test, since a
// timeline belongs to a user. Docker before 24 passes no annotations: there, set up the engine with
// `eigentime setup docker --trust-environment`.
package containers

import (
	"context"
	"fmt"
	"maps"

	"eigentime"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/moby/moby/client/pkg/versions"
	"github.com/testcontainers/testcontainers-go"
)

// Runtime is the name under which `eigentime setup` registers the runtime with an engine.
const Runtime = "eigentime"

// On starts the container on the timeline, which must have been made with [eigentime.Joinable]. Other settings of the
// host configuration are kept.
func On(timeline *eigentime.Timeline) testcontainers.CustomizeRequestOption {
	return func(request *testcontainers.GenericContainerRequest) error {
		state, err := timeline.Show()
		if err != nil {
			return err
		}
		if !state.Joinable {
			return fmt.Errorf("timeline '%s': containers may not join it\nhelp: make it with eigentime.Joinable()", timeline.Name())
		}
		info, err := timeline.Info()
		if err != nil {
			return err
		}
		annotated, err := passesAnnotations(context.Background())
		if err != nil {
			return err
		}
		if !annotated {
			if err := testcontainers.WithEnv(info.Join.Environment)(request); err != nil {
				return err
			}
		}
		return testcontainers.WithHostConfigModifier(func(host *container.HostConfig) {
			host.Runtime = Runtime
			if host.Annotations == nil {
				host.Annotations = map[string]string{}
			}
			maps.Copy(host.Annotations, info.Join.Annotations)
		})(request)
	}
}

// passesAnnotations reports whether the engine passes annotations to the runtime. Older engines ignore them.
func passesAnnotations(ctx context.Context) (bool, error) {
	engine, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return false, err
	}
	defer engine.Close()
	version, err := engine.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return false, fmt.Errorf("asking the container engine for its version: %w", err)
	}
	return versions.GreaterThanOrEqualTo(version.APIVersion, "1.43"), nil
}
