/* The program of a container whose commands are timed.
 *
 *   inside         write one byte to standard output and wait to be killed
 *   inside ARG     write it and end
 */
#include <unistd.h>

int main(int argc, char **argv)
{
	(void)argv;
	if (write(STDOUT_FILENO, "x", 1) != 1)
		return 1;
	if (argc == 1)
		pause();
	return 0;
}
