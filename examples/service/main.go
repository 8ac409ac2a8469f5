// Shop is a typical service: it issues tokens that expire, and has a job that runs every day. It knows
// nothing about Eigentime.
package main

import (
	"database/sql"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/lib/pq"
)

const day = 24 * time.Hour

func main() {
	url := os.Getenv("DATABASE_URL")
	if url == "" {
		url = "postgres://test:test@database/test?sslmode=disable"
	}
	database, err := open(url)
	if err != nil {
		log.Fatal(err)
	}
	go work(database, time.NewTimer(day))

	http.HandleFunc("/login", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, issue(time.Now().Add(30*day)))
	})
	http.HandleFunc("/account", func(w http.ResponseWriter, r *http.Request) {
		if err := verify(r.FormValue("token"), time.Now()); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
		}
	})
	http.HandleFunc("/jobs", func(w http.ResponseWriter, _ *http.Request) {
		runs, err := runs(database)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
		for _, run := range runs {
			fmt.Fprintln(w, run)
		}
	})
	listener, err := net.Listen("tcp", ":8080")
	if err != nil {
		log.Fatal(err)
	}
	log.Print("ready")
	log.Fatal(http.Serve(listener, nil))
}

func open(url string) (*sql.DB, error) {
	connector, err := pq.NewConnector(url)
	if err != nil {
		return nil, err
	}
	database := sql.OpenDB(connector)
	_, err = database.Exec("CREATE TABLE IF NOT EXISTS runs (at timestamptz)")
	return database, err
}

// work runs the job whenever the timer expires, and sets the timer to the next day.
func work(database *sql.DB, timer *time.Timer) {
	for range timer.C {
		timer.Reset(day)
		if _, err := database.Exec("INSERT INTO runs VALUES (now())"); err != nil {
			log.Fatal(err)
		}
	}
}

// runs returns the dates on which the job has run, by the clock of the database.
func runs(database *sql.DB) (dates []string, err error) {
	const query = "SELECT coalesce(array_agg(to_char(at, 'YYYY-MM-DD') ORDER BY at), '{}') FROM runs"
	err = database.QueryRow(query).Scan(pq.Array(&dates))
	return dates, err
}
