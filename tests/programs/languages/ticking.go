// Prints a number, the wall clock and the monotonic clock, ten times a second.
package main

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"
)

// The monotonic reading, which time.Now() keeps private.
func monotonic() float64 {
	var read syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&read)), 0)
	return float64(read.Nano()) / 1e9
}

func main() {
	go func() {
		for range time.Tick(3 * time.Millisecond) {
			monotonic()
		}
	}()
	last := time.Now()
	for number := 0; ; number++ {
		now := time.Now()
		if now.Sub(last) < 0 {
			fmt.Println("its own monotonic clock went back")
		}
		last = now
		fmt.Printf("%d %.9f %.9f\n", number, float64(now.UnixNano())/1e9, monotonic())
		time.Sleep(100 * time.Millisecond)
	}
}
