"""What would this job do? Prints its plan, and saves it as a picture: `python examples/explain.py plan.svg`."""

import sys

import snapline as sl

job = sl.Job("revenue", parallelism=4, checkpoints=sl.Checkpoints(interval="10s", unaligned=True, aligned_timeout="1s"))

orders = job.source(sl.sources.Rate(), uid="orders", watermarks=sl.Watermarks("time", delay="5s"), parallelism=2)
customers = job.source(sl.sources.Rate(rows=1000), uid="customers", parallelism=1)
checked = orders.map(lambda row: {**row, "value": 100 // row["value"]}, schema=orders.schema, on_error="dead_letter")
checked.dead_letters.sink(sl.sinks.Files("data/broken"), uid="broken")
known = checked.key_by("user").join(customers.key_by("user"), uid="known")
known.key_by("user").aggregate(revenue=sl.sum("value"), uid="per-user").sink(sl.sinks.Files("data/out"), uid="revenue")

if __name__ == "__main__":
    plan = job.explain()
    print(plan)
    for path in sys.argv[1:]:
        plan.save(path)
