import pytest
import requests
from eigentime.testcontainers import on
from testcontainers.community.postgres import PostgresContainer
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network
from testcontainers.core.wait_strategies import LogMessageWaitStrategy


@pytest.mark.timeline(date="2038-01-19", joinable=True)
def test_a_month_passes(timeline, database, shop):
    token = shop("/login").text
    assert shop("/account", token=token).ok
    assert shop("/jobs").text == ""

    timeline.leap("30d")
    timeline.wait(idle=True)

    assert not shop("/account", token=token).ok
    assert shop("/jobs").text == "2038-02-18\n"


@pytest.fixture
def network():
    with Network() as network:
        yield network


@pytest.fixture
def database(timeline, network):
    container = PostgresContainer("postgres").with_network(network)
    with on(timeline, container.with_network_aliases("database")) as database:
        yield database


@pytest.fixture
def shop(timeline, network, database):
    ready = LogMessageWaitStrategy("ready")
    container = DockerContainer("shop").with_network(network).with_exposed_ports(8080)
    with on(timeline, container.waiting_for(ready)) as shop:
        address = f"http://{shop.get_container_host_ip()}:{shop.get_exposed_port(8080)}"
        yield lambda path, **parameters: requests.get(address + path, parameters)
