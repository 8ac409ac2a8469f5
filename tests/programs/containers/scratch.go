// Prints the clocks as key=value lines in nanoseconds. It is the only file in its image.
package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// The clocks to read, by number.
var clocks = map[string]uintptr{"realtime": 0, "monotonic": 1, "boottime": 7}

func read(clock uintptr) int64 {
	var now syscall.Timespec
	_, _, failure := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&now)), 0)
	if failure != 0 {
		panic(failure)
	}
	return now.Nano()
}

func main() {
	fmt.Printf("date=%d\n", time.Now().UnixNano())
	for name, clock := range clocks {
		fmt.Printf("%s=%d\n", name, read(clock))
	}
	begin := time.Now()
	time.Sleep(100 * time.Millisecond)
	fmt.Printf("slept=%d\n", time.Since(begin).Nanoseconds())
	for _, file := range []string{"/proc/uptime", "/proc/self/timens_offsets"} {
		text, failure := os.ReadFile(file)
		if failure != nil {
			panic(failure)
		}
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			fmt.Printf("%s=%s\n", file[strings.LastIndex(file, "/")+1:], strings.Join(strings.Fields(line), " "))
		}
	}
}
