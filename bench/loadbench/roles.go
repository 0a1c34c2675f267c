package loadbench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/engine"
	"github.com/skein-project/skein/load/report"
)

// Roles make a program of this module the target, or skein's client.
const (
	TargetRole = "load-target"
	ClientRole = "load-client"
)

// body is what the target answers, 102 bytes.
const body = `{"ok":true,"token":"t-1","items":[{"id":1,"name":"needle"},{"id":2,"name":"thread"}],"total":2,"x":1}` + "\n"

// freezeAfter and freezeFor: /freeze stands still so long after its first request.
const (
	freezeAfter = 5 * time.Second
	freezeFor   = time.Second
)

// Target serves until its input ends; it says its address first.
func Target(in io.Reader, out io.Writer) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, "target:", err)
		return 1
	}
	began := make(chan time.Time, 1) // when /freeze was asked first
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	})
	mux.HandleFunc("/freeze", func(w http.ResponseWriter, r *http.Request) {
		var first time.Time
		select {
		case first = <-began:
		default:
			first = time.Now()
		}
		select {
		case began <- first:
		default:
		}
		if since := time.Since(first) - freezeAfter; since >= 0 && since < freezeFor {
			select {
			case <-time.After(freezeFor - since):
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, body)
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		_ = s.Close()
	}()
	fmt.Fprintln(out, l.Addr())
	_ = s.Serve(l)
	return 0
}

// scenario is what a request of the comparison does: a template, two checks, a value
// of the answer.
const scenario = `
traffic.main = { flow = "main", %s }
grace = "2s"
[[flow.main]]
get = "%s?n=${random(1, 1000000)}"
check = ["status == 200", "json('$.ok') == true"]
extract.token = { json = "$.token" }
`

// Client runs skein's engine: URL, users, rate (0: closed), seconds. It prints the report.
func Client(args []string, out io.Writer) int {
	if len(args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: load-client URL USERS RATE SECONDS")
		return 2
	}
	traffic := fmt.Sprintf(`users = %s, for = "%ss"`, args[1], args[3])
	if args[2] != "0" {
		traffic = fmt.Sprintf(`rate = %s, max_users = %s, for = "%ss"`, args[2], args[1], args[3])
	}
	s, err := load.Parse(fmt.Sprintf(scenario, traffic, args[0]))
	if err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		return 1
	}
	p, err := s.Compile(load.Inputs{})
	if err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		return 1
	}
	e, err := engine.New(engine.Options{Plan: p, Seed: 1})
	if err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		return 1
	}
	r, err := e.Run(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		return 1
	}
	if err := json.NewEncoder(out).Encode(report.New(p, r)); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		return 1
	}
	return 0
}

func text(n int) string { return strconv.Itoa(n) }
