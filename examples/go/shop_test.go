package shop_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"eigentime"
	"eigentime/containers"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/postgres"
	"github.com/testcontainers/testcontainers-go/network"
	"github.com/testcontainers/testcontainers-go/wait"
)

func TestAMonthPasses(t *testing.T) {
	tl := eigentime.New(t, eigentime.Date("2038-01-19"), eigentime.Joinable())
	shop := startShop(t, containers.On(tl.Timeline))
	_, token := shop("/login")
	expect(t, shop, "/account?token="+token, 200, "")
	expect(t, shop, "/jobs", 200, "")

	tl.Leap(30 * 24 * time.Hour)
	tl.Wait(t.Context(), eigentime.Idle())

	expect(t, shop, "/account?token="+token, 401, "the token has expired\n")
	expect(t, shop, "/jobs", 200, "2038-02-18\n")
}

// client returns the shop's answer to a request.
type client func(path string) (status int, text string)

// startShop starts a shop and its database, with options of their containers.
func startShop(t *testing.T, options ...testcontainers.ContainerCustomizer) client {
	t.Helper()
	shared, err := network.New(t.Context())
	testcontainers.CleanupNetwork(t, shared)
	check(t, err)

	database, err := postgres.Run(t.Context(), "postgres", append(options,
		network.WithNetwork([]string{"database"}, shared),
		postgres.WithDatabase("test"), postgres.WithUsername("test"), postgres.WithPassword("test"),
		postgres.BasicWaitStrategies())...)
	testcontainers.CleanupContainer(t, database)
	check(t, err)

	shop, err := testcontainers.Run(t.Context(), "shop", append(options,
		network.WithNetwork(nil, shared),
		testcontainers.WithExposedPorts("8080"),
		testcontainers.WithWaitStrategy(wait.ForLog("ready")))...)
	testcontainers.CleanupContainer(t, shop)
	check(t, err)

	address, err := shop.PortEndpoint(t.Context(), "8080", "http")
	check(t, err)
	return func(path string) (int, string) {
		t.Helper()
		answer, err := http.Get(address + path)
		check(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		check(t, err)
		return answer.StatusCode, string(text)
	}
}

func expect(t *testing.T, ask client, path string, status int, text string) {
	t.Helper()
	if gotStatus, got := ask(path); gotStatus != status || got != text {
		t.Errorf("%s: %d %q instead of %d %q", path, gotStatus, got, status, text)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
