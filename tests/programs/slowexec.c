/* A child starts a program slowly: the kernel must read an argument from memory that becomes
 * available only when the child says so (userfaultfd). Meanwhile another child starts a program:
 * `other=1` if that one succeeds, and `slow=1` for the first. */
#include "common.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define LIMIT_MS 5000

static void *start_program(void *argument)
{
	execl("/bin/true", "true", argument, NULL);
	die("execl");
	return NULL;
}

/* Sends `b` when the kernel waits for the argument, and supplies it when told to. */
static void start_slowly(int told, int tells)
{
	long size = sysconf(_SC_PAGESIZE);
	int faults = syscall(SYS_userfaultfd, O_CLOEXEC);
	must(faults >= 0, "userfaultfd");
	struct uffdio_api api = { .api = UFFD_API };
	must(ioctl(faults, UFFDIO_API, &api) == 0, "UFFDIO_API");
	void *argument = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(argument != MAP_FAILED, "mmap");
	struct uffdio_range range = { .start = (uintptr_t)argument, .len = size };
	struct uffdio_register watched = { .range = range, .mode = UFFDIO_REGISTER_MODE_MISSING };
	must(ioctl(faults, UFFDIO_REGISTER, &watched) == 0, "UFFDIO_REGISTER");
	pthread_t thread;
	must(pthread_create(&thread, NULL, start_program, argument) == 0, "pthread_create");
	struct uffd_msg fault;
	must(read(faults, &fault, sizeof fault) == sizeof fault, "read a fault");
	char byte = 'b';
	must(write(tells, &byte, 1) == 1, "write");
	must(read(told, &byte, 1) == 1, "read");
	struct uffdio_zeropage page = { .range = range };
	must(ioctl(faults, UFFDIO_ZEROPAGE, &page) == 0, "UFFDIO_ZEROPAGE");
	pause();
}

static bool ends_well(pid_t child)
{
	struct timespec begin = now(CLOCK_MONOTONIC);
	while (ms_between(begin, now(CLOCK_MONOTONIC)) < LIMIT_MS) {
		int status;
		pid_t ended = waitpid(child, &status, WNOHANG);
		must(ended >= 0, "waitpid");
		if (ended == child)
			return status == 0;
		sleep_ms(5);
	}
	must(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child, "waitpid");
	return false;
}

int main(void)
{
	int to_child[2], from_child[2];
	must(pipe2(to_child, O_CLOEXEC) == 0 && pipe2(from_child, O_CLOEXEC) == 0, "pipe2");
	pid_t slow = fork();
	must(slow >= 0, "fork");
	if (slow == 0)
		start_slowly(to_child[0], from_child[1]);
	char byte;
	must(read(from_child[0], &byte, 1) == 1, "read");
	pid_t other = fork();
	must(other >= 0, "fork");
	if (other == 0)
		start_program("");
	say("other=%d", ends_well(other));
	must(write(to_child[1], &byte, 1) == 1, "write");
	say("slow=%d", ends_well(slow));
	return 0;
}
