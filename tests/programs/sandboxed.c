/* Puts itself into a sandbox that allows everything, prints `ready`, and for every line
 * on standard input `alive`. */
#include "common.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

int main(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog filter = { .len = 1, .filter = &allow };
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS");
	must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0, "PR_SET_SECCOMP");
	say("ready");
	for (int byte; (byte = getchar()) != EOF;)
		if (byte == '\n')
			say("alive");
	return 0;
}
