// Package containers puts containers of testcontainers-go on a timeline of Eigentime.
//
//	tl := eigentime.New(t, eigentime.Date("2038-01-19"), eigentime.Joinable())
//	database, err := testcontainers.Run(ctx, "postgres:18", containers.On(tl.Timeline))
//
// The engine must know the runtime eigentime (`eigentime setup docker`), pass annotations (Docker 24 or later),
// and run as the user of the test, since a timeline belongs to a user.
package containers

import (
	"fmt"
	"maps"

	"eigentime"

	"github.com/moby/moby/api/types/container"
	"github.com/testcontainers/testcontainers-go"
)

// Runtime is the name by which `eigentime setup` makes the runtime known to an engine.
const Runtime = "eigentime"

// On starts the container on the timeline, which must have been made with [eigentime.Joinable]. What else the
// configuration of the host says stays.
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
		return testcontainers.WithHostConfigModifier(func(host *container.HostConfig) {
			host.Runtime = Runtime
			if host.Annotations == nil {
				host.Annotations = map[string]string{}
			}
			maps.Copy(host.Annotations, info.Join.Annotations)
		})(request)
	}
}
