/* Waits without a limit, each in its own thread, in every waiting call there is.
 *
 *   endless
 *
 * Prints `ready` once all threads have started. For a line `look` it prints
 * NAME=early RESULT ERRNO for each that has returned, and `done`; for a line `wake` it
 * gives each what it waits for, prints NAME=RESULT ERRNO, and `done`. */
#include "common.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

struct waiter {
	const char *name;
	long (*wait)(struct waiter *);
	void (*wake)(struct waiter *);
	pthread_t thread;
	int ends[2], other;
	_Atomic int word;
	int error;
	long result;
	_Atomic bool returned;
};

static sigset_t one_signal(int signal)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, signal);
	return set;
}

static void write_byte(struct waiter *w)
{
	must(write(w->ends[1], "x", 1) == 1, "write");
}

static void signal_it(struct waiter *w)
{
	must(pthread_kill(w->thread, SIGUSR1) == 0, "pthread_kill");
}

static long read_(struct waiter *w)
{
	char byte;
	return read(w->ends[0], &byte, 1);
}

static long poll_(struct waiter *w)
{
	return syscall(SYS_poll, &(struct pollfd){ .fd = w->ends[0], .events = POLLIN }, 1, -1);
}

static long ppoll_(struct waiter *w)
{
	struct pollfd input = { .fd = w->ends[0], .events = POLLIN };
	return syscall(SYS_ppoll, &input, 1, NULL, NULL, KERNEL_SIGSET_BYTES);
}

static long select_(struct waiter *w)
{
	fd_set set;
	FD_ZERO(&set);
	FD_SET(w->ends[0], &set);
	return syscall(SYS_select, w->ends[0] + 1, &set, NULL, NULL, NULL);
}

static int epoll_of(struct waiter *w)
{
	int epoll = epoll_create1(0);
	must(epoll >= 0, "epoll_create1");
	struct epoll_event event = { .events = EPOLLIN };
	must(epoll_ctl(epoll, EPOLL_CTL_ADD, w->ends[0], &event) == 0, "epoll_ctl");
	return epoll;
}

static long epoll_wait_(struct waiter *w)
{
	struct epoll_event event;
	return syscall(SYS_epoll_wait, epoll_of(w), &event, 1, -1);
}

static long epoll_pwait_(struct waiter *w)
{
	struct epoll_event event;
	uint64_t mask = 0;
	return syscall(SYS_epoll_pwait, epoll_of(w), &event, 1, -1, &mask, KERNEL_SIGSET_BYTES);
}

static long futex(struct waiter *w)
{
	long result = syscall(SYS_futex, &w->word, FUTEX_WAIT, 0, NULL, NULL, 0);
	/* It was about to restart the wait when it was woken. */
	if (result == -1 && errno == EAGAIN && w->word == 1)
		result = errno = 0;
	return result;
}

static void wake_futex(struct waiter *w)
{
	w->word = 1;
	must(syscall(SYS_futex, &w->word, FUTEX_WAKE, 1, NULL, NULL, 0) >= 0, "FUTEX_WAKE");
}

static long sigwaitinfo_(struct waiter *w)
{
	(void)w;
	sigset_t set = one_signal(SIGUSR1);
	return syscall(SYS_rt_sigtimedwait, &set, NULL, NULL, KERNEL_SIGSET_BYTES);
}

static long pause_(struct waiter *w)
{
	(void)w;
	sigset_t set = one_signal(SIGUSR1);
	must(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0, "pthread_sigmask");
	return pause();
}

static long sigsuspend_(struct waiter *w)
{
	(void)w;
	sigset_t nothing;
	sigemptyset(&nothing);
	return sigsuspend(&nothing);
}

static struct sockaddr_un address = { .sun_family = AF_UNIX };
static socklen_t address_size;

static long accept_(struct waiter *w)
{
	return accept(w->other, NULL, NULL) >= 0 ? 0 : -1;
}

static void listen_(struct waiter *w)
{
	w->other = socket(AF_UNIX, SOCK_STREAM, 0);
	/* The kernel chooses a name. */
	must(bind(w->other, (struct sockaddr *)&address, sizeof address.sun_family) == 0, "bind");
	address_size = sizeof address;
	must(getsockname(w->other, (struct sockaddr *)&address, &address_size) == 0, "getsockname");
	must(listen(w->other, 1) == 0, "listen");
}

static void connect_(struct waiter *w)
{
	(void)w;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	must(connect(fd, (struct sockaddr *)&address, address_size) == 0, "connect");
}

static long waitpid_(struct waiter *w)
{
	return waitpid(w->other, NULL, 0) == w->other ? 0 : -1;
}

static void make_child(struct waiter *w)
{
	w->other = fork();
	must(w->other >= 0, "fork");
	if (w->other == 0) {
		close(w->ends[1]);
		char byte;
		_exit(read(w->ends[0], &byte, 1) == 1 ? 0 : 1);
	}
}

static long semop_(struct waiter *w)
{
	return semop(w->other, &(struct sembuf){ .sem_op = -1 }, 1);
}

static void make_semaphore(struct waiter *w)
{
	w->other = semget(IPC_PRIVATE, 1, 0600);
	must(w->other >= 0, "semget");
}

static void raise_semaphore(struct waiter *w)
{
	must(semop(w->other, &(struct sembuf){ .sem_op = 1 }, 1) == 0, "semop");
	must(pthread_join(w->thread, NULL) == 0, "pthread_join");
	w->thread = 0;
	must(semctl(w->other, 0, IPC_RMID) == 0, "semctl");
}

static long lock_file(struct waiter *w)
{
	struct flock lock = { .l_type = F_WRLCK };
	return fcntl(w->ends[0], F_OFD_SETLKW, &lock);
}

static void make_locked_file(struct waiter *w)
{
	char name[] = "/tmp/eigentime-endless-XXXXXX";
	w->ends[0] = mkstemp(name);
	w->ends[1] = open(name, O_RDWR);
	must(w->ends[0] >= 0 && w->ends[1] >= 0 && unlink(name) == 0, "a file");
	struct flock lock = { .l_type = F_WRLCK };
	must(fcntl(w->ends[1], F_OFD_SETLK, &lock) == 0, "F_OFD_SETLK");
}

static void unlock_file(struct waiter *w)
{
	struct flock lock = { .l_type = F_UNLCK };
	must(fcntl(w->ends[1], F_OFD_SETLK, &lock) == 0, "F_OFD_SETLK");
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static bool raised;

static long cond_wait(struct waiter *w)
{
	(void)w;
	int error = 0;
	pthread_mutex_lock(&mutex);
	while (!raised && error == 0)
		error = pthread_cond_wait(&condition, &mutex);
	pthread_mutex_unlock(&mutex);
	return error;
}

static void cond_signal(struct waiter *w)
{
	(void)w;
	pthread_mutex_lock(&mutex);
	raised = true;
	pthread_cond_signal(&condition);
	pthread_mutex_unlock(&mutex);
}

static sem_t semaphore;

static long sem_wait_(struct waiter *w)
{
	(void)w;
	return sem_wait(&semaphore);
}

static void sem_post_(struct waiter *w)
{
	(void)w;
	must(sem_post(&semaphore) == 0, "sem_post");
}

static struct waiter waiters[] = {
	{ .name = "read", .wait = read_, .wake = write_byte },
	{ .name = "poll", .wait = poll_, .wake = write_byte },
	{ .name = "ppoll", .wait = ppoll_, .wake = write_byte },
	{ .name = "select", .wait = select_, .wake = write_byte },
	{ .name = "epoll_wait", .wait = epoll_wait_, .wake = write_byte },
	{ .name = "epoll_pwait", .wait = epoll_pwait_, .wake = write_byte },
	{ .name = "futex", .wait = futex, .wake = wake_futex },
	{ .name = "sigwaitinfo", .wait = sigwaitinfo_, .wake = signal_it },
	{ .name = "pause", .wait = pause_, .wake = signal_it },
	{ .name = "sigsuspend", .wait = sigsuspend_, .wake = signal_it },
	{ .name = "accept", .wait = accept_, .wake = connect_ },
	{ .name = "waitpid", .wait = waitpid_, .wake = write_byte },
	{ .name = "semop", .wait = semop_, .wake = raise_semaphore },
	{ .name = "lock", .wait = lock_file, .wake = unlock_file },
	{ .name = "cond_wait", .wait = cond_wait, .wake = cond_signal },
	{ .name = "sem_wait", .wait = sem_wait_, .wake = sem_post_ },
};
enum { WAITERS = sizeof waiters / sizeof *waiters };

static void *wait_for_it(void *argument)
{
	struct waiter *w = argument;
	errno = 0;
	w->result = w->wait(w);
	w->error = errno;
	w->returned = true;
	return NULL;
}

static void prepare(struct waiter *w)
{
	must(pipe(w->ends) == 0, "pipe");
	if (w->wait == accept_)
		listen_(w);
	else if (w->wait == waitpid_)
		make_child(w);
	else if (w->wait == semop_)
		make_semaphore(w);
	else if (w->wait == lock_file)
		make_locked_file(w);
}

static void nothing(int signal)
{
	(void)signal;
}

static void wake(struct waiter *w)
{
	bool early = w->returned;
	w->wake(w);
	if (w->thread)
		must(pthread_join(w->thread, NULL) == 0, "pthread_join");
	say("%s=%s%ld %d", w->name, early ? "early " : "", w->result, w->error);
}

int main(void)
{
	struct sigaction action = { .sa_handler = nothing };
	must(sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
	sigset_t set = one_signal(SIGUSR1);
	must(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0, "pthread_sigmask");
	must(sem_init(&semaphore, 0, 0) == 0, "sem_init");
	for (int i = 0; i < WAITERS; i++)
		prepare(&waiters[i]);
	for (int i = 0; i < WAITERS; i++)
		must(pthread_create(&waiters[i].thread, NULL, wait_for_it, &waiters[i]) == 0,
		     "pthread_create");
	say("ready");
	char line[32];
	while (fgets(line, sizeof line, stdin)) {
		for (int i = 0; i < WAITERS; i++)
			if (strcmp(line, "wake\n") == 0)
				wake(&waiters[i]);
			else if (waiters[i].returned)
				say("%s=early %ld %d", waiters[i].name, waiters[i].result,
				    waiters[i].error);
		say("done");
	}
	return 0;
}
