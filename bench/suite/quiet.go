package suite

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// quietLoad is the load average of one minute above which results are not
// worth keeping: other work has changed throughputs by a factor of three.
const quietLoad = 0.5

// SettleTime is how long a run waits for the load to fall. The compiler that
// made this program is still part of the average when it starts.
const SettleTime = 4 * time.Minute

// AwaitQuiet returns when the load of the machine is at most quietLoad, or with
// an error if that takes longer than settle. read is the load average as text;
// a machine that has none counts as quiet.
func AwaitQuiet(ctx context.Context, read func() string, settle, pause time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	for {
		text := read()
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || v <= quietLoad {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the load before the run is %s, above %g: the results would not be worth writing\n"+
				"hint: stop other work, or write them all the same with -busy (make bench BENCHFLAGS=-busy)", text, quietLoad)
		case <-time.After(pause):
		}
	}
}
