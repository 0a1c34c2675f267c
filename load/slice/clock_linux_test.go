package slice

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestInstant: an instant of the host's clock is the same by that of the process, whatever lies
// between readings of the two.
func TestInstant(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, 0, time.Second, time.Hour} {
		before := Clock()
		at := before + int64(ahead)
		left := time.Until(instant(at))
		if after := Clock(); left > ahead+time.Millisecond || left < ahead-time.Duration(after-before)-time.Millisecond {
			t.Errorf("in %s is in %s, asked for %s", ahead, left, time.Duration(after-before))
		}
	}
}

// niceRole has several threads, gives way, and says how nice each of them is.
func niceRole() int {
	var held, ready sync.WaitGroup
	held.Add(1)
	for range 4 {
		ready.Add(1)
		go func() {
			runtime.LockOSThread()
			ready.Done()
			held.Wait()
		}()
	}
	ready.Wait()
	giveWay()
	tasks, err := filepath.Glob("/proc/self/task/*/stat")
	if err != nil {
		return 1
	}
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		fmt.Println(strings.Fields(rest)[16])
	}
	held.Done()
	return 0
}

// TestGivesWay: all threads of an engine give way, whenever they began.
func TestGivesWay(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.SysProcAttr = append(os.Environ(), "SKEIN_TEST_NICE=1"), attributes()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(out))
	if len(lines) < 5 {
		t.Errorf("%d threads", len(lines))
	}
	for _, one := range lines {
		if n, err := strconv.Atoi(one); err != nil || n < engineNice {
			t.Errorf("a thread is nice by %s, want %d: %v", one, engineNice, lines)
		}
	}
}
