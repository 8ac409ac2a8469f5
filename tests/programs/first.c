/* A program without a library: prints, in hexadecimal, the general registers and the flags
 * at its first instruction, except the stack pointer. */

static long call(long number, long first, const void *second, long third)
{
	long result;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(first), "S"(second), "d"(third)
			 : "rcx", "r11", "memory");
	return result;
}

enum { WRITE = 1, EXIT = 60 };
enum { WORDS = 16, DIGITS = 16 };

__attribute__((used)) static void print(const unsigned long *words)
{
	for (int word = 0; word < WORDS; word++) {
		char line[DIGITS + 1];
		for (int digit = 0; digit < DIGITS; digit++)
			line[digit] = "0123456789abcdef"[words[word] >> 4 * (DIGITS - 1 - digit) & 15];
		line[DIGITS] = '\n';
		call(WRITE, 1, line, sizeof line);
	}
	call(EXIT, 0, 0, 0);
}

__asm__(".globl _start\n"
	"_start:\n"
	"	pushfq\n"
	"	push %rax\n	push %rbx\n	push %rcx\n	push %rdx\n"
	"	push %rsi\n	push %rdi\n	push %rbp\n	push %r8\n"
	"	push %r9\n	push %r10\n	push %r11\n	push %r12\n"
	"	push %r13\n	push %r14\n	push %r15\n"
	"	mov %rsp, %rdi\n"
	"	call print\n");
