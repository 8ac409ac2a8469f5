// Prints its wall clock, sleeps ten seconds, prints it again. Go does not link a C library, so it
// contains nothing that a preloaded library could replace.
package main

import (
	"fmt"
	"time"
)

func main() {
	const layout = "2006-01-02T15:04:05.000Z"
	fmt.Println(time.Now().UTC().Format(layout))
	time.Sleep(10 * time.Second)
	fmt.Println(time.Now().UTC().Format(layout))
}
