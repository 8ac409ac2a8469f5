/* Waits for signals, semaphores, queues and datagrams. */
#include "waits.h"

#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>

static void rt_sigtimedwait_(long ms)
{
	uint64_t wanted = 1UL << (SIGUSR1 - 1);
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	must(sigprocmask(SIG_BLOCK, &set, NULL) == 0, "sigprocmask");
	struct timespec timeout = from_ms(ms);
	begin();
	end(syscall(SYS_rt_sigtimedwait, &wanted, NULL, &timeout, KERNEL_SIGSET_BYTES));
	report("untouched_ms", to_ms(timeout));
}

static void semtimedop_(long ms)
{
	int set = semget(IPC_PRIVATE, 1, 0600);
	must(set >= 0, "semget");
	struct sembuf take = { .sem_num = 0, .sem_op = -1 };
	struct timespec timeout = from_ms(ms);
	begin();
	long result = syscall(SYS_semtimedop, set, &take, 1L, &timeout);
	end(result);
	semctl(set, 0, IPC_RMID);
}

static bool has_semaphores(void)
{
	int set = semget(IPC_PRIVATE, 1, 0600);
	return set >= 0 && semctl(set, 0, IPC_RMID) == 0;
}

/* A queue of one message, whose name is removed at once. */
static mqd_t new_queue(void)
{
	char name[64];
	snprintf(name, sizeof name, "/eigentime-test-%d", (int)getpid());
	struct mq_attr attributes = { .mq_maxmsg = 1, .mq_msgsize = 8 };
	mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
	if (queue != (mqd_t)-1)
		mq_unlink(name);
	return queue;
}

static bool has_queues(void)
{
	return new_queue() != (mqd_t)-1;
}

static void mq_timedsend_(long ms)
{
	mqd_t queue = new_queue();
	must(queue != (mqd_t)-1, "mq_open");
	must(mq_send(queue, "full", 4, 0) == 0, "mq_send");
	begin();
	struct timespec until = deadline(CLOCK_REALTIME, ms);
	end(syscall(SYS_mq_timedsend, queue, "more", 4L, 0, &until));
}

static void mq_timedreceive_(long ms)
{
	mqd_t queue = new_queue();
	must(queue != (mqd_t)-1, "mq_open");
	char message[8];
	begin();
	struct timespec until = deadline(CLOCK_REALTIME, ms);
	end(syscall(SYS_mq_timedreceive, queue, message, sizeof message, NULL, &until));
}

enum { DATAGRAMS = 64, DATAGRAMS_PER_TIMEOUT = 10 };

struct sender {
	int socket;
	long pause_ms;
};

static void *send_datagrams(void *argument)
{
	struct sender *sender = argument;
	for (int i = 0; i < 2 * DATAGRAMS_PER_TIMEOUT; i++) {
		sleep_ms(sender->pause_ms);
		must(send(sender->socket, "d", 1, 0) == 1, "send");
	}
	return NULL;
}

/* The kernel checks this timeout only when a datagram has come, so a thread
 * sends some: the call returns with the first one after the timeout. */
static void recvmmsg_(long ms)
{
	int pair[2];
	must(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0, "socketpair");
	static struct mmsghdr headers[DATAGRAMS];
	static struct iovec pieces[DATAGRAMS];
	static char bytes[DATAGRAMS];
	for (int i = 0; i < DATAGRAMS; i++) {
		pieces[i] = (struct iovec){ .iov_base = &bytes[i], .iov_len = 1 };
		headers[i].msg_hdr.msg_iov = &pieces[i];
		headers[i].msg_hdr.msg_iovlen = 1;
	}
	static struct sender sender;
	sender = (struct sender){ .socket = pair[1], .pause_ms = ms / DATAGRAMS_PER_TIMEOUT };
	pthread_t thread;
	struct timespec timeout = from_ms(ms);
	begin();
	must(pthread_create(&thread, NULL, send_datagrams, &sender) == 0, "pthread_create");
	end(syscall(SYS_recvmmsg, pair[0], headers, DATAGRAMS, 0, &timeout));
	report("remain_ms", to_ms(timeout));
}

const struct wait messages[] = {
	{ "rt_sigtimedwait", NULL, rt_sigtimedwait_ },
	{ "semtimedop", has_semaphores, semtimedop_ },
	{ "mq_timedsend", has_queues, mq_timedsend_ },
	{ "mq_timedreceive", has_queues, mq_timedreceive_ },
	{ "recvmmsg", NULL, recvmmsg_ },
	{ NULL, NULL, NULL },
};
