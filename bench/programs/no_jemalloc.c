/* Replaces libjemalloc.so.2, so that a server linked with it uses malloc of the
 * C library: libfaketime and jemalloc deadlock at start
 * (github.com/wolfcw/libfaketime/issues/130), and without this there would be no
 * figure for Redis under libfaketime.  Other calls of Redis to jemalloc return
 * "not known".  */
#include <errno.h>
#include <stddef.h>

int mallctl(const char *name, void *old, size_t *old_size, void *new, size_t new_size)
{
	(void)name, (void)old, (void)old_size, (void)new, (void)new_size;
	return ENOENT;
}

void malloc_stats_print(void (*print)(void *, const char *), void *arg, const char *options)
{
	(void)print, (void)arg, (void)options;
}

size_t nallocx(size_t size, int flags)
{
	(void)flags;
	return size;
}
