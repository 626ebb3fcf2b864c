#include <filesystem>
#include <future>
#include <utility>

#include "tensor_tracer/record/recorder.h"
#include "tensor_tracer/record/recording.h"
#include "tests/unit/hub/room_fixture.h"

/// What the audit trail says of who changed what.
namespace tt::hub {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

class RoomTrailTest : public RoomTest {
 protected:
  RoomTrailTest() {
    folder_ =
        testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
    record::RecorderOptions options;
    options.path = folder_ + "/trail.ttrec";
    options.vfs = "unix-dotfile";  // reads on the writing thread see what waits to be written
    auto opened = record::Recorder::open(std::move(options));
    recorder_ = std::move(opened).value();
    room_.record_to(*recorder_, folder_ + "/trail.ttrec");
    trainer_ = greeted(Role::kWorker);
    viewer_ = greeted(Role::kViewer);
  }
  ~RoomTrailTest() override {
    room_.leave(*trainer_);
    room_.end_recording();
    recorder_.reset();
    std::filesystem::remove_all(folder_);
  }
  RoomTrailTest(const RoomTrailTest&) = delete;
  RoomTrailTest& operator=(const RoomTrailTest&) = delete;

  // Its id at the trainer.
  std::uint64_t pause() {
    ask(*viewer_, "control.claim", {{"name", "Ada"}});
    trainer_->texts();
    ask(*viewer_, "control.pause");
    return trainer_->texts().back().at("id").get<std::uint64_t>();
  }

  std::vector<record::Event> events(std::optional<std::string> kind = {}) {
    std::promise<std::vector<record::Event>> events;
    recorder_->read([&](record::Recording& recording) {
      std::vector<record::Event> found;
      for (auto& [id, event] : recording.events({.limit = 1000, .kind = std::move(kind)}))
        found.push_back(std::move(event));
      events.set_value(std::move(found));
    });
    return events.get_future().get();
  }

  // "kind who" of each line about a request.
  std::vector<std::string> trail() {
    std::vector<std::string> found;
    for (const record::Event& event : events())
      if (event.session == "v1" && event.kind != "control.claim")
        found.push_back(event.kind + " " + event.who);
    return found;
  }

  std::string folder_;
  std::unique_ptr<record::Recorder> recorder_;
  std::unique_ptr<FakeClient> trainer_;
  std::unique_ptr<FakeClient> viewer_;
};

TEST_F(RoomTrailTest, AnAnswerThatComesTooLateStillHasItsLine) {
  const std::uint64_t id = pause();
  now_ += 61s;
  room_.tick(now_);
  EXPECT_EQ(viewer_->texts().at(0).at("error").at("code"), "timeout");
  EXPECT_EQ(room_.survey(now_).waiting_requests, 1U) << "the hub's own";
  say(*trainer_, {{"id", id}, {"result", {{"step", 3}}}});
  say(*trainer_, {{"id", id}, {"result", {{"step", 3}}}});
  EXPECT_TRUE(viewer_->texts().empty()) << "it has its answer";
  EXPECT_EQ(trail(), (std::vector<std::string>{"control.pause Ada"}));
}

TEST_F(RoomTrailTest, AChangeWhoseAnswerTheConnectionTookAlongHasALineToo) {
  pause();
  now_ += 61s;
  room_.tick(now_);
  viewer_->texts();
  pause();
  room_.leave(*trainer_);
  const auto told = viewer_->texts();
  EXPECT_EQ(told.at(0).at("error").at("code"), "no_trainer");
  EXPECT_EQ(trail(), (std::vector<std::string>{"unanswered Ada", "unanswered Ada"}));
}

TEST_F(RoomTrailTest, SoManyWithoutAnAnswerAreKept) {
  std::vector<std::uint64_t> ids;
  for (int i = 0; i < 300; ++i) {
    ids.push_back(pause());
    now_ += 61s;
    room_.tick(now_);
  }
  for (const std::uint64_t id : ids) say(*trainer_, {{"id", id}, {"result", {{"step", 3}}}});
  EXPECT_EQ(trail().size(), 128U) << "and as many of the hub's own, at the end of each lease";
}

TEST_F(RoomTrailTest, AClaimTookOverOnlyIfAnotherViewerHeldTheControl) {
  ask(*viewer_, "control.claim", {{"take_over", true}});
  const auto bob = greeted(Role::kViewer);
  ask(*bob, "control.claim", {{"take_over", true}});
  std::vector<bool> took_over;
  for (const record::Event& event : events("control.claim"))
    took_over.push_back(event.detail.at("take_over").get<bool>());
  EXPECT_EQ(took_over, (std::vector<bool>{false, true}));
  room_.leave(*bob);
}

}  // namespace
}  // namespace tt::hub
