/* Prints what a program inherits from its parent, to the file named by
 * its first argument. The output is the same with and without Eigentime,
 * except for lines that the harness names. */
#include "common.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

extern char **environ;

static FILE *out;

static void descriptors(void)
{
	enum { MOST = 1024 };
	for (int fd = 0; fd < MOST; fd++) {
		int flags = fcntl(fd, F_GETFD);
		if (flags < 0)
			continue;
		char link[64], target[4096];
		snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
		ssize_t length = readlink(link, target, sizeof target - 1);
		target[length < 0 ? 0 : length] = 0;
		/* Two runs have two pipes: only the type can be the same. */
		if (strncmp(target, "/", 1) != 0)
			target[strcspn(target, ":")] = 0;
		fprintf(out, "fd %d: %s flags %x mode %x\n", fd, target, flags, fcntl(fd, F_GETFL));
	}
}

static void status_lines(void)
{
	static const char *const wanted[] = {
		"Name",	  "Umask",  "Uid",    "Gid",	"Groups", "SigPnd",
		"ShdPnd", "SigBlk", "SigIgn", "SigCgt", "CapInh", "CapPrm", "CapEff",
		"CapBnd", "CapAmb", "NoNewPrivs", "Cpus_allowed", "Mems_allowed",
	};
	FILE *status = fopen("/proc/self/status", "r");
	char line[4096];
	while (status && fgets(line, sizeof line, status))
		for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
			size_t length = strlen(wanted[i]);
			if (strncmp(line, wanted[i], length) == 0 && line[length] == ':')
				fprintf(out, "status %s", line);
		}
	if (status)
		fclose(status);
}

static void limits(void)
{
	for (int resource = 0; resource < RLIM_NLIMITS; resource++) {
		struct rlimit limit;
		must(getrlimit(resource, &limit) == 0, "getrlimit");
		fprintf(out, "limit %d: %lld %lld\n", resource, (long long)limit.rlim_cur,
			(long long)limit.rlim_max);
	}
}

static void scheduling(void)
{
	fprintf(out, "nice: %d\n", getpriority(PRIO_PROCESS, 0));
	fprintf(out, "policy: %d\n", sched_getscheduler(0));
	fprintf(out, "timer slack: %d\n", prctl(PR_GET_TIMERSLACK));
	int death_signal = -1, reaper = -1;
	prctl(PR_GET_PDEATHSIG, &death_signal);
	prctl(PR_GET_CHILD_SUBREAPER, &reaper);
	fprintf(out, "parent death signal: %d\n", death_signal);
	fprintf(out, "reaper: %d\n", reaper);
	fprintf(out, "dumpable: %d\n", prctl(PR_GET_DUMPABLE));
	fprintf(out, "personality: %x\n", personality(0xffffffff));
	fprintf(out, "session: %d\n", (int)getsid(0));
	fprintf(out, "process group: %d\n", (int)getpgrp());
	fprintf(out, "terminal group: %d\n", (int)tcgetpgrp(0));
	fprintf(out, "secure: %lu\n", getauxval(AT_SECURE));
}

static void one_line_of(const char *path)
{
	char line[4096] = "";
	FILE *file = fopen(path, "r");
	if (file && fgets(line, sizeof line, file))
		fprintf(out, "%s: %s%s", path, line, strchr(line, '\n') ? "" : "\n");
	if (file)
		fclose(file);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 92;
	/* Written at the end, so that the file itself is not in the list. */
	char *text;
	size_t size;
	out = open_memstream(&text, &size);
	must(out != NULL, "open_memstream");
	descriptors();
	char directory[4096];
	fprintf(out, "directory: %s\n", getcwd(directory, sizeof directory));
	for (int i = 0; i < argc; i++)
		fprintf(out, "argument %d: %s\n", i, argv[i]);
	for (char **variable = environ; *variable; variable++)
		fprintf(out, "environment: %s\n", *variable);
	status_lines();
	limits();
	scheduling();
	one_line_of("/proc/self/cgroup");
	one_line_of("/proc/self/oom_score_adj");
	one_line_of("/proc/self/coredump_filter");
	fclose(out);
	int file = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	must(file >= 0 && write(file, text, size) == (ssize_t)size, "writing");
	return 0;
}
