// Events that are a unit of seconds apart, in the order in which they come.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"
)

func main() {
	seconds, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	unit := time.Duration(seconds) * time.Second
	begin := time.Now()
	ticker := time.NewTicker(unit)
	timer := make(chan bool, 1)
	time.AfterFunc(unit*3/2, func() { timer <- true })
	ctx, cancel := context.WithTimeout(context.Background(), unit*11/2)
	defer cancel()
	deadline := ctx.Done()
	for ticks := 0; ticks < 24; {
		select {
		case <-ticker.C:
			ticks++
			fmt.Printf("tick %d\n", ticks)
		case <-timer:
			fmt.Println("timer")
		case <-deadline:
			fmt.Println("deadline")
			deadline = nil
		}
	}
	fmt.Printf("passed=%f\n", time.Since(begin).Seconds())
}
