package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/skein-project/skein/internal/faketarget"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to serve")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &http.Server{Addr: *listen, Handler: faketarget.New(), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { s.Close() }) //nolint:errcheck // it ends
	fmt.Fprintln(os.Stderr, "serving http://"+*listen+"/")
	if err := s.ListenAndServe(); err != http.ErrServerClosed { //nolint:errorlint // it is that very value
		fmt.Fprintln(os.Stderr, "loadtarget:", err)
		os.Exit(1)
	}
}
