/* Calls functions that read clocks and wait, in all the ways that a library before them could
 * break:
 *
 *   preload WHAT
 *   preload paced MS                   waits so long in each
 *   preload filtered PROGRAM [LIBRARY]  under a filter that is there before the program */
#include "preload.h"

static const struct {
	const char *name;
	void (*run)(void);
} all[] = {
	{ "answers", answers },	    { "interrupted", interrupted }, { "handlers", handlers },
	{ "jumps", jumps },	    { "cancelled", cancelled },	    { "forked", forked },
	{ "closed", closed },	    { "sandboxed", sandboxed },	    { "threads", threads },
	{ "storm", storm },	    { "agree", agree },		    { "misses", misses },
	{ "idle", idle },	    { "synced", synced },	    { "uncounted", uncounted },
	{ "cancelled_before", cancelled_before }, { "early", early },
};

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "paced") == 0) {
		paced(atol(argv[2]));
		return 0;
	}
	if (argc >= 3 && strcmp(argv[1], "filtered") == 0)
		filtered(argv[2], argv[3]);
	for (size_t i = 0; argc == 2 && i < sizeof all / sizeof *all; i++)
		if (strcmp(argv[1], all[i].name) == 0) {
			all[i].run();
			return 0;
		}
	return 92;
}
