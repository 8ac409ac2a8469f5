/* A 64-bit program that reads the time through the 32-bit system call gate, which
 * neither the vDSO nor the ordinary call numbers cover. */
#include "common.h"

#define TIME_I386 13

int main(void)
{
	long seconds;
	__asm__ volatile("int $0x80" : "=a"(seconds) : "a"(TIME_I386), "b"(0) : "memory", "r8", "r9", "r10",
			 "r11");
	say("time=%ld", seconds);
	return 0;
}
