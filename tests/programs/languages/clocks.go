// Waits by the usual means of Go. `clocks MS` makes every wait last MS
// milliseconds; `clocks stacks` makes raw system calls with little stack left.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// measure prints when a wait starts and ends, and how long it took on both of
// the program's clocks.
func measure(name string, wanted time.Duration, wait func()) {
	fmt.Printf("%s begin\n", name)
	start := time.Now()
	wait()
	end := time.Now()
	milliseconds := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	// Round(0) drops the monotonic reading, so Sub uses the wall clock.
	fmt.Printf("%s end wanted_ms=%.3f mono_ms=%.3f wall_ms=%.3f\n", name, milliseconds(wanted),
		milliseconds(end.Sub(start)), milliseconds(end.Round(0).Sub(start.Round(0))))
}

func check(err error) {
	if err != nil {
		fmt.Println("broken:", err)
		os.Exit(91)
	}
}

func waits(wanted time.Duration) {
	fmt.Printf("date=%d\n", time.Now().Unix())
	measure("sleep", wanted, func() { time.Sleep(wanted) })
	measure("after", wanted, func() { <-time.After(wanted) })
	measure("ticker", wanted, func() {
		ticker := time.NewTicker(wanted / 4)
		defer ticker.Stop()
		for i := 0; i < 4; i++ {
			<-ticker.C
		}
	})
	measure("context", wanted, func() {
		ctx, cancel := context.WithTimeout(context.Background(), wanted)
		defer cancel()
		<-ctx.Done()
	})
	measure("deadline", wanted, func() {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		check(err)
		connection, err := net.Dial("tcp", listener.Addr().String())
		check(err)
		check(connection.SetReadDeadline(time.Now().Add(wanted)))
		if _, err := connection.Read(make([]byte, 1)); !os.IsTimeout(err) {
			fmt.Println("broken: no timeout but", err)
		}
	})
	measure("goroutines", wanted, func() {
		var group sync.WaitGroup
		for i := 0; i < 200; i++ {
			group.Add(1)
			go func() {
				defer group.Done()
				time.Sleep(wanted)
			}()
		}
		group.Wait()
	})
}

const (
	deepest    = 80
	goroutines = 64
)

// rawWait makes one blocking system call without the runtime's help, so on the
// goroutine's own stack.
func rawWait(kind int) syscall.Errno {
	millisecond := syscall.Timespec{Nsec: 1e6}
	timeout := syscall.Timeval{Usec: 1e3}
	var errno syscall.Errno
	switch kind % 3 {
	case 0:
		_, _, errno = syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&millisecond)), 0, 0)
	case 1:
		_, _, errno = syscall.RawSyscall6(syscall.SYS_SELECT, 0, 0, 0, 0, uintptr(unsafe.Pointer(&timeout)), 0)
	case 2:
		_, _, errno = syscall.RawSyscall(syscall.SYS_POLL, 0, 0, 1)
	}
	return errno
}

// descend waits at every depth of a recursion, so that somewhere the stack is
// about to grow, and on the way back checks the values it left there. It
// returns the number of damaged words.
func descend(depth int, seed uint64) int {
	var kept [5]uint64
	for i := range kept {
		kept[i] = seed ^ uint64(depth*1000+i)
	}
	damaged := 0
	// The runtime's own signals interrupt some.
	if errno := rawWait(depth); errno != 0 && errno != syscall.EINTR {
		fmt.Println("broken:", errno)
	}
	if depth < deepest {
		damaged += descend(depth+1, seed)
	}
	for i := range kept {
		if kept[i] != seed^uint64(depth*1000+i) {
			damaged++
		}
	}
	return damaged
}

func stacks() {
	var group sync.WaitGroup
	damaged := make([]int, goroutines)
	start := time.Now()
	for number := 0; number < goroutines; number++ {
		group.Add(1)
		go func(number int) {
			defer group.Done()
			damaged[number] = descend(0, uint64(number)*0x9e3779b97f4a7c15)
		}(number)
	}
	group.Wait()
	total := 0
	for _, words := range damaged {
		total += words
	}
	fmt.Printf("damaged=%d\nmono_ms=%.3f\n", total, float64(time.Since(start))/1e6)
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "stacks" {
		stacks()
		return
	}
	milliseconds, err := strconv.Atoi(os.Args[1])
	check(err)
	waits(time.Duration(milliseconds) * time.Millisecond)
}
