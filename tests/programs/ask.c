/* Sends a line to a socket and prints the reply, or `refused` and the reason if there
 * is none:
 *
 *   ask SOCKET LINE */
#include "common.h"

#include <sys/socket.h>
#include <sys/un.h>

int main(int argc, char **argv)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	if (argc != 3 || strlen(argv[1]) >= sizeof address.sun_path) {
		fprintf(stderr, "usage: ask SOCKET LINE\n");
		return 92;
	}
	strcpy(address.sun_path, argv[1]);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	must(fd >= 0, "socket");
	signal(SIGPIPE, SIG_IGN);
	char answer[400];
	ssize_t got;
	if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
		say("refused=connect: %s", strerror(errno));
	else if (dprintf(fd, "%s\n", argv[2]) < 0 && errno != EPIPE)
		die("write");
	else if ((got = read(fd, answer, sizeof answer)) > 0)
		say("%.*s", (int)strcspn(answer, "\n"), answer);
	else
		say("refused=%s", got == 0 ? "hung up" : strerror(errno));
	return 0;
}
