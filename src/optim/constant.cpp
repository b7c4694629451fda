#include "optim/schedule.h"

namespace lockstep::optim {
namespace {

[[maybe_unused]] const bool constant_added = schedules().add(
    {.name = "constant",
     .about = "optimizer.lr in every step",
     .uses = {"warmup_epochs"},
     .rate = [](const ScheduleOptions&, const Course& course, double) { return course.peak; }});

}  // namespace
}  // namespace lockstep::optim
