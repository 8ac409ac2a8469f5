/* Waits for descriptors: poll, select, epoll and a socket's own timeout. The
 * `_ready` forms may wait LONG times the time until they are ready, so that a
 * remaining time is left. */
#include "waits.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>

#define SYS_EPOLL_PWAIT2 441

/* This many times as long. */
enum { LONG = 20 };

static struct timeval timeval_from_ms(long ms)
{
	return (struct timeval){ .tv_sec = ms / MS_PER_S,
				 .tv_usec = ms % MS_PER_S * US_PER_MS };
}

static double timeval_to_ms(struct timeval t)
{
	return (double)t.tv_sec * MS_PER_S + (double)t.tv_usec / US_PER_MS;
}

static void poll_(long ms)
{
	struct pollfd quiet = { .fd = new_pipe().read, .events = POLLIN };
	begin();
	end(syscall(SYS_poll, &quiet, 1, (int)ms));
}

/* With no descriptors at all it is a plain sleep. */
static void poll_nothing(long ms)
{
	begin();
	end(syscall(SYS_poll, NULL, 0, (int)ms));
}

static void ppoll_on(int fd, long ms)
{
	struct pollfd quiet = { .fd = fd, .events = POLLIN };
	struct timespec timeout = from_ms(ms);
	uint64_t mask = 0;
	end(syscall(SYS_ppoll, &quiet, 1, &timeout, &mask, KERNEL_SIGSET_BYTES));
	report("remain_ms", to_ms(timeout));
}

static void ppoll_(long ms)
{
	struct pipe_ends quiet = new_pipe();
	begin();
	ppoll_on(quiet.read, ms);
}

static void ppoll_ready(long ms)
{
	struct pipe_ends later = new_pipe();
	begin();
	write_later(later.write, ms);
	ppoll_on(later.read, LONG * ms);
}

static void select_on(int fd, long ms)
{
	fd_set set;
	FD_ZERO(&set);
	FD_SET(fd, &set);
	struct timeval timeout = timeval_from_ms(ms);
	end(syscall(SYS_select, fd + 1, &set, NULL, NULL, &timeout));
	report("remain_ms", timeval_to_ms(timeout));
}

static void select_(long ms)
{
	struct pipe_ends quiet = new_pipe();
	begin();
	select_on(quiet.read, ms);
}

static void select_ready(long ms)
{
	struct pipe_ends later = new_pipe();
	begin();
	write_later(later.write, ms);
	select_on(later.read, LONG * ms);
}

static void pselect6_on(int fd, long ms)
{
	fd_set set;
	FD_ZERO(&set);
	FD_SET(fd, &set);
	struct timespec timeout = from_ms(ms);
	uint64_t mask = 0;
	struct {
		const uint64_t *mask;
		size_t bytes;
	} signals = { &mask, KERNEL_SIGSET_BYTES };
	end(syscall(SYS_pselect6, fd + 1, &set, NULL, NULL, &timeout, &signals));
	report("remain_ms", to_ms(timeout));
}

static void pselect6_(long ms)
{
	struct pipe_ends quiet = new_pipe();
	begin();
	pselect6_on(quiet.read, ms);
}

static void pselect6_ready(long ms)
{
	struct pipe_ends later = new_pipe();
	begin();
	write_later(later.write, ms);
	pselect6_on(later.read, LONG * ms);
}

/* The library's select() may be pselect6 underneath. */
static void libc_select(long ms)
{
	struct timeval timeout = timeval_from_ms(ms);
	begin();
	end(select(0, NULL, NULL, NULL, &timeout));
	report("remain_ms", timeval_to_ms(timeout));
}

static int quiet_epoll(void)
{
	int epoll = epoll_create1(0);
	must(epoll >= 0, "epoll_create1");
	struct epoll_event event = { .events = EPOLLIN };
	must(epoll_ctl(epoll, EPOLL_CTL_ADD, new_pipe().read, &event) == 0, "epoll_ctl");
	return epoll;
}

static void epoll_wait_(long ms)
{
	struct epoll_event event;
	int epoll = quiet_epoll();
	begin();
	end(syscall(SYS_epoll_wait, epoll, &event, 1, (int)ms));
}

static void epoll_pwait_(long ms)
{
	struct epoll_event event;
	int epoll = quiet_epoll();
	uint64_t mask = 0;
	begin();
	end(syscall(SYS_epoll_pwait, epoll, &event, 1, (int)ms, &mask, KERNEL_SIGSET_BYTES));
}

static void epoll_pwait2_(long ms)
{
	struct epoll_event event;
	int epoll = quiet_epoll();
	uint64_t mask = 0;
	struct timespec timeout = from_ms(ms);
	begin();
	end(syscall(SYS_EPOLL_PWAIT2, epoll, &event, 1, &timeout, &mask, KERNEL_SIGSET_BYTES));
	report("untouched_ms", to_ms(timeout));
}

static bool has_epoll_pwait2(void)
{
	return syscall(SYS_EPOLL_PWAIT2, -1, NULL, 0, NULL, NULL, 0L) == -1 && errno != ENOSYS;
}

static void so_rcvtimeo(long ms)
{
	int pair[2];
	must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
	struct timeval timeout = timeval_from_ms(ms);
	must(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) == 0,
	     "setsockopt");
	char byte;
	begin();
	end(recv(pair[0], &byte, 1, 0));
	socklen_t size = sizeof timeout;
	must(getsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, &size) == 0, "getsockopt");
	report("told_ms", timeval_to_ms(timeout));
}

static void so_sndtimeo(long ms)
{
	int pair[2];
	must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
	static char block[4096];
	while (send(pair[0], block, sizeof block, MSG_DONTWAIT) > 0)
		;
	must(errno == EAGAIN, "filling the socket");
	struct timeval timeout = timeval_from_ms(ms);
	must(setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) == 0,
	     "setsockopt");
	begin();
	end(send(pair[0], block, sizeof block, 0));
}

const struct wait descriptors[] = {
	{ "poll", NULL, poll_ },
	{ "poll_nothing", NULL, poll_nothing },
	{ "ppoll", NULL, ppoll_ },
	{ "ppoll_ready", NULL, ppoll_ready },
	{ "select", NULL, select_ },
	{ "select_ready", NULL, select_ready },
	{ "pselect6", NULL, pselect6_ },
	{ "pselect6_ready", NULL, pselect6_ready },
	{ "libc_select", NULL, libc_select },
	{ "epoll_wait", NULL, epoll_wait_ },
	{ "epoll_pwait", NULL, epoll_pwait_ },
	{ "epoll_pwait2", has_epoll_pwait2, epoll_pwait2_ },
	{ "so_rcvtimeo", NULL, so_rcvtimeo },
	{ "so_sndtimeo", NULL, so_sndtimeo },
	{ NULL, NULL, NULL },
};
