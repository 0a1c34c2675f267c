package client_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/client"
	"github.com/skein-project/skein/cluster/job"
)

// Submit a job from a machine that is no member, and hear of it until its end, by way
// of whichever host lives.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	text, err := os.ReadFile("ann.key")
	check(err)
	key, err := access.ParsePrivateKey(text)
	check(err)
	c, err := client.Dial(client.Options{
		Endpoints: []string{"https://h1:7443", "https://h2:7443"}, Key: key,
		Pins: []string{os.Getenv("PIN1"), os.Getenv("PIN2")},
	})
	check(err)
	defer c.Close()
	module, err := os.Open("pi.wasm")
	check(err)
	put, err := c.API().PutArtefact(ctx, module)
	check(err)
	j, err := c.Submit(ctx, job.Spec{Name: "pi", Artefact: put.Hash, Iterations: 1e9}, client.Callbacks{
		OnStats: func(j api.Job) { fmt.Printf("%d of %d chunks\n", j.Chunks.Accepted, j.Chunks.Total) },
	})
	check(err)
	last, err := j.Wait(ctx)
	check(err)
	fmt.Println(last.State, last.Aggregates["pi"].Mean)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Read the results of a job's chunks, and go on after a restart of this program from
// the position that was kept.
func ExampleClient_StreamResults() {
	c, err := client.Dial(client.Options{Endpoints: []string{"/run/skein/skein.sock"}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	var kept api.Cursor // empty: from the beginning
	kept, err = c.StreamResults(context.Background(), "nightly", kept, func(r api.ChunkResult) error {
		fmt.Println(r.Chunk, r.Worker, r.Metrics["pi"].Mean)
		return nil
	})
	fmt.Println("read up to", kept, err)
}

// Watch the lease and the events of the cluster until the first term begins.
func ExampleClient_Watch() {
	c, err := client.Dial(client.Options{Endpoints: []string{"http://10.90.0.1:7780", "http://10.90.0.2:7780"}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	q := api.WatchQuery{Topics: []string{"lease", "events"}, Events: api.EventQuery{Kind: "term_start"}}
	err = c.Watch(context.Background(), q, func(m api.WatchMessage) error {
		fmt.Println(m.Event, string(m.Data))
		if m.Event == "log" {
			return api.ErrStop // the end, without an error
		}
		return nil
	})
	fmt.Println(err)
}
