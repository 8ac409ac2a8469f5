// Keeps running while it is moved between timelines: see moved.c.
package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
)

const pause = 20 * time.Millisecond

var back, loops atomic.Int64

func live() {
	for last := time.Now(); ; loops.Add(1) {
		next := time.Now()
		if next.Sub(last) < 0 {
			back.Add(1)
		}
		last = next
		time.Sleep(pause)
	}
}

func measure(name string, span time.Duration) {
	fmt.Println(name, "begin")
	time.Sleep(span)
	fmt.Println(name, "end")
}

func main() {
	threads, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	for range threads {
		go func() {
			runtime.LockOSThread()
			live()
		}()
	}
	fmt.Println("ready")
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		millis, err := strconv.Atoi(input.Text())
		if err != nil {
			panic(err)
		}
		fmt.Printf("date=%.3f\n", float64(time.Now().UnixMilli())/1e3)
		fmt.Printf("back=%d\nfailed=0\nloops=%d\n", back.Load(), loops.Load())
		span := time.Duration(millis) * time.Millisecond
		measure("old", span)
		finished := make(chan struct{})
		go func() {
			// Ends with its thread, so that the next one is new.
			runtime.LockOSThread()
			measure("new", span)
			close(finished)
		}()
		<-finished
		child := exec.Command("sh", os.Args[2], fmt.Sprint(span.Seconds()))
		child.Stdout = os.Stdout
		if err := child.Run(); err != nil {
			panic(err)
		}
		fmt.Println("done")
	}
	os.Exit(7)
}
