// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// A periodic timer within the kernel (bpf_timer, Linux 5.15 on): its callback notes the time and
// arms it again, for the next deadline of an even grid. Deadlines that are past by then are
// counted; those after them keep their places, so that no delay shifts the grid.
//
// Declares what it needs of the kernel by itself (include/uapi/linux/bpf.h): headers of the
// machine where this is built may be older than the kernel where it runs.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

#define SECTION(name) __attribute__((section(name), used))
#define BPF_MAP_TYPE_ARRAY 2
#define CLOCK_MONOTONIC 1
#define BPF_F_TIMER_ABS (1ULL << 0)     // Linux 6.4
#define BPF_F_TIMER_CPU_PIN (1ULL << 1) // Linux 6.7

// How the timer is armed: the best that the kernel knows. The numbers are those of events/kernel/bpf_timer.rs.
enum arming { ABSOLUTE_PINNED = 0, ABSOLUTE = 1, RELATIVE = 2 };

// By this name and size the verifier knows a timer in a map.
struct bpf_timer {
    u64 reserved[2];
} __attribute__((aligned(8)));

// What is asked and what becomes of it; all times on CLOCK_MONOTONIC, in nanoseconds.
struct state {
    struct bpf_timer timer;
    u64 interval;  // asked
    u64 lead;      // asked: how long after arming the first deadline is
    u64 count;     // asked: how many deadlines there are
    u64 first;     // the first deadline
    u64 next;      // the index of the deadline that it is armed for
    u64 recorded;  // events in `events`
    u64 missed;    // deadlines that were past when the one before was served
    u64 elsewhere; // events that came on another processor than the one that armed it
    s64 failure;   // what bpf_timer_* said, if it failed: then nothing follows
    u32 arming;    // enum arming
    u32 cpu;       // the processor that armed it
    u64 done;      // 1: nothing follows
};

struct {
    int (*type)[BPF_MAP_TYPE_ARRAY];
    int (*max_entries)[1];
    u32 *key;
    struct state *value;
} STATE SECTION(".maps");

// As many as are asked for: set when it is loaded.
struct {
    int (*type)[BPF_MAP_TYPE_ARRAY];
    int (*max_entries)[1];
    u32 *key;
    u64 *value;
} EVENTS SECTION(".maps");

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
static long (*bpf_timer_init)(struct bpf_timer *timer, void *map, u64 clock) = (void *)169;
static long (*bpf_timer_set_callback)(struct bpf_timer *timer, void *callback) = (void *)170;
static long (*bpf_timer_start)(struct bpf_timer *timer, u64 nsecs, u64 flags) = (void *)171;

// Arms it for deadline `next`, in the best way that the kernel knows.
static __attribute__((always_inline)) long arm(struct state *state) {
    u64 deadline = state->first + state->next * state->interval;
    if (state->arming == ABSOLUTE_PINNED) {
        if (bpf_timer_start(&state->timer, deadline, BPF_F_TIMER_ABS | BPF_F_TIMER_CPU_PIN) == 0) return 0;
        state->arming = ABSOLUTE;
    }
    if (state->arming == ABSOLUTE) {
        if (bpf_timer_start(&state->timer, deadline, BPF_F_TIMER_ABS) == 0) return 0;
        state->arming = RELATIVE;
    }
    u64 now = bpf_ktime_get_ns();
    return bpf_timer_start(&state->timer, deadline > now ? deadline - now : 0, 0);
}

// The first deadline in the future is served next; those before it are missed.
static __attribute__((noinline)) int fire(void *map, s32 *key, struct state *state) {
    u64 now = bpf_ktime_get_ns();
    u32 index = state->recorded;
    bpf_map_update_elem(&EVENTS, &index, &now, 0);
    state->recorded += 1;
    if (bpf_get_smp_processor_id() != state->cpu) state->elsewhere += 1;

    u64 next = state->next + 1;
    if (state->interval && now > state->first) {
        u64 ahead = (now - state->first) / state->interval + 1;
        if (ahead > next) next = ahead;
    }
    if (next > state->count) next = state->count;
    state->missed += next - state->next - 1;
    state->next = next;

    if (next < state->count) {
        state->failure = arm(state);
        if (state->failure == 0) return 0;
    }
    state->done = 1;
    return 0;
}

// Sets it up and arms it for the first time, on the processor that runs this.
SECTION("classifier") int start(void *context) {
    u32 key = 0;
    struct state *state = bpf_map_lookup_elem(&STATE, &key);
    if (!state) return 1;
    state->failure = bpf_timer_init(&state->timer, &STATE, CLOCK_MONOTONIC);
    if (state->failure) return 1;
    state->failure = bpf_timer_set_callback(&state->timer, fire);
    if (state->failure) return 1;
    state->cpu = bpf_get_smp_processor_id();
    state->first = bpf_ktime_get_ns() + state->lead;
    state->failure = arm(state);
    return state->failure != 0;
}

// The verifier lets only programs with this licence, or a compatible one, call what this calls.
char LICENSE[] SECTION("license") = "Dual MIT/GPL";
