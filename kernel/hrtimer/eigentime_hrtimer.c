// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
/*
 * Events of a high-resolution timer, timed by its own hard interrupt: what Adamczyk and Chydzinski
 * measured in "Achieving High Resolution Timer Events in Virtualized Environment" (PLoS ONE, 2015).
 *
 * /dev/eigentime_hrtimer, for root. Each open file is a measurement of its own:
 *
 *   write   "INTERVAL COUNT CPU\n", in nanoseconds and by number, starts it; errors:
 *             EINVAL  not three numbers, or not within the limits below, or the processor is not there
 *             ERANGE  the interval is less than the resolution of timers here (no high resolution)
 *             EBUSY   one was started in this file already
 *   read    waits for the last event, then gives struct result; errors:
 *             ENODATA    none was started
 *             ETIMEDOUT  the events do not come
 *   close   ends it.
 *
 * The deadlines are an even grid: a late event shifts none of those after it. Deadlines that are
 * past by the time that the one before them is served are counted as missed.
 */

#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/uaccess.h>
#include <linux/version.h>

#define INTERVAL_MIN_NS 1000ULL
#define INTERVAL_MAX_NS (60ULL * NSEC_PER_SEC)
#define COUNT_MAX 10000000U
/* From arming to the first deadline: enough for the arming itself to be over. */
#define LEAD_NS NSEC_PER_MSEC
/* How long after the last deadline an event may come. */
#define PATIENCE_MS (10 * MSEC_PER_SEC)

/* What is read. The probe knows it: crates/probe/src/events/kernel/hrtimer.rs. */
struct result {
	__u64 recorded;  /* events in at_ns */
	__u64 missed;    /* with those recorded, as many as were asked for */
	__u64 elsewhere; /* events that came on another processor than the one that was asked for */
	__s64 at_ns[];   /* since the first deadline, by ktime_get() */
};

struct measurement {
	struct mutex lock; /* against writing and reading by several threads at once */
	struct hrtimer timer;
	struct completion done;
	u64 interval_ns;
	u32 count;
	unsigned int cpu;
	ktime_t first;
	u64 next; /* the index of the deadline that it is armed for */
	struct result *result;
};

static enum hrtimer_restart fire(struct hrtimer *timer)
{
	struct measurement *it = container_of(timer, struct measurement, timer);
	ktime_t now = ktime_get();
	u64 passed;

	it->result->at_ns[it->result->recorded++] = ktime_to_ns(ktime_sub(now, it->first));
	if (smp_processor_id() != it->cpu)
		it->result->elsewhere++;

	/* At least one: an event is never early. */
	passed = max_t(u64, hrtimer_forward(timer, now, ns_to_ktime(it->interval_ns)), 1);
	passed = min_t(u64, passed, it->count - it->next);
	it->result->missed += passed - 1;
	it->next += passed;
	if (it->next < it->count)
		return HRTIMER_RESTART;
	complete_all(&it->done);
	return HRTIMER_NORESTART;
}

/* On the processor where the events are to come. */
static void arm(void *data)
{
	struct measurement *it = data;

	it->first = ktime_add_ns(ktime_get(), LEAD_NS);
	hrtimer_start(&it->timer, it->first, HRTIMER_MODE_ABS_PINNED_HARD);
}

static int device_open(struct inode *inode, struct file *file)
{
	struct measurement *it = kzalloc(sizeof(*it), GFP_KERNEL);

	if (!it)
		return -ENOMEM;
	mutex_init(&it->lock);
	init_completion(&it->done);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(&it->timer, fire, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_PINNED_HARD);
#else
	hrtimer_init(&it->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_PINNED_HARD);
	it->timer.function = fire;
#endif
	file->private_data = it;
	return 0;
}

static int start(struct measurement *it, u64 interval_ns, u32 count, u32 cpu)
{
	int error;

	if (interval_ns < INTERVAL_MIN_NS || interval_ns > INTERVAL_MAX_NS)
		return -EINVAL;
	if (count < 1 || count > COUNT_MAX || cpu >= nr_cpu_ids)
		return -EINVAL;
	if (interval_ns < hrtimer_resolution)
		return -ERANGE;
	if (it->result)
		return -EBUSY;

	it->result = kvzalloc(struct_size(it->result, at_ns, count), GFP_KERNEL);
	if (!it->result)
		return -ENOMEM;
	it->interval_ns = interval_ns;
	it->count = count;
	it->cpu = cpu;
	/* Says so itself where the processor is not there: ENXIO. */
	error = smp_call_function_single(cpu, arm, it, 1);
	if (error) {
		kvfree(it->result);
		it->result = NULL;
		return -EINVAL;
	}
	return 0;
}

static ssize_t device_write(struct file *file, const char __user *from, size_t length, loff_t *position)
{
	struct measurement *it = file->private_data;
	char text[64];
	char after;
	u64 interval_ns;
	u32 count, cpu;
	int error;

	if (length >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, from, length))
		return -EFAULT;
	text[length] = '\0';
	if (sscanf(text, "%llu %u %u %c", &interval_ns, &count, &cpu, &after) != 3)
		return -EINVAL;

	if (mutex_lock_interruptible(&it->lock))
		return -ERESTARTSYS;
	error = start(it, interval_ns, count, cpu);
	mutex_unlock(&it->lock);
	return error ? error : length;
}

static ssize_t device_read(struct file *file, char __user *to, size_t length, loff_t *position)
{
	struct measurement *it = file->private_data;
	struct result *result;
	unsigned long limit;
	long left;

	if (mutex_lock_interruptible(&it->lock))
		return -ERESTARTSYS;
	result = it->result;
	mutex_unlock(&it->lock);
	if (!result)
		return -ENODATA;

	/* Once started, a measurement stays until the file is closed, which is not while it is read. */
	limit = msecs_to_jiffies(PATIENCE_MS) + nsecs_to_jiffies(it->interval_ns * it->count);
	left = wait_for_completion_interruptible_timeout(&it->done, limit);
	if (left < 0)
		return -ERESTARTSYS;
	if (left == 0)
		return -ETIMEDOUT;
	return simple_read_from_buffer(to, length, position, result,
				       struct_size(result, at_ns, result->recorded));
}

static int device_release(struct inode *inode, struct file *file)
{
	struct measurement *it = file->private_data;

	hrtimer_cancel(&it->timer);
	kvfree(it->result);
	kfree(it);
	return 0;
}

/* By `owner`, the module stays as long as a file is open. */
static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = device_open,
	.write = device_write,
	.read = device_read,
	.release = device_release,
	.llseek = noop_llseek,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "eigentime_hrtimer",
	.fops = &operations,
	.mode = 0600,
};

module_misc_device(device);

MODULE_DESCRIPTION("Events of a high-resolution timer, timed by its own interrupt");
MODULE_AUTHOR("The Eigentime authors");
MODULE_LICENSE("Dual MIT/GPL");
