package recent

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

func TestLog(t *testing.T) {
	var l Log
	if l.Text() != nil {
		t.Error("there is something at the start")
	}
	log := zerolog.New(&l)
	log.Info().Msg("too little")
	for i := range MaxLines + 5 {
		log.Warn().Int("i", i).Msg("w")
	}
	log.Error().Str("long", strings.Repeat("x", 2*MaxLine)).Msg("e")
	lines := bytes.Split(bytes.TrimRight(l.Text(), "\n"), []byte("\n"))
	if len(lines) != MaxLines {
		t.Fatalf("%d lines", len(lines))
	}
	if first := string(lines[0]); first != `{"level":"warn","i":6,"message":"w"}` {
		t.Errorf("the oldest is %s", first)
	}
	if last := lines[MaxLines-1]; len(last) != MaxLine || !bytes.HasPrefix(last, []byte(`{"level":"error","long":"xx`)) {
		t.Errorf("the last has %d bytes: %.40s", len(last), last)
	}
}
