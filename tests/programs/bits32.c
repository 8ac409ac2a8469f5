/* A 32-bit program without a library: prints `ready`, and `alive` for any data on standard
 * input, until that ends. */

static long call(long number, long first, const void *second, long third)
{
	long result;
	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "a"(number), "b"(first), "c"(second), "d"(third)
			 : "memory");
	return result;
}

enum { EXIT = 1, READ = 3, WRITE = 4 };

void _start(void)
{
	char buffer[64];
	call(WRITE, 1, "ready\n", 6);
	while (call(READ, 0, buffer, sizeof buffer) > 0)
		call(WRITE, 1, "alive\n", 6);
	call(EXIT, 0, 0, 0);
}
